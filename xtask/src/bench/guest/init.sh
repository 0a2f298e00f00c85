#!/bin/sh
# The first program of the guest: connects the kernel's driver to the export, uses it, and prints the
# end of each step and the kernel's log.
busybox mount -t proc proc /proc
busybox --install -s /bin
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ln -s /proc/mounts /etc/mtab
for module in $(cat /modules/order); do
    [ -e "/modules/$module.ko.xz" ] && unxz "/modules/$module.ko.xz"
    [ -e "/modules/$module.ko" ] && insmod "/modules/$module.ko"
done
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0

step() {
    echo "STEP $*"
    "$@"
    echo "ENDED $? $(cut -d' ' -f1 /proc/uptime)"
}
cold() { echo 3 > /proc/sys/vm/drop_caches; }
head_is() {
    cold
    dd if=/dev/nbd0 of=/head bs=1M count=20 2> /dev/null
    cmp "$1" /head
}
noise() { dd if=/dev/urandom bs=1M count="$1" 2> /dev/null; }
zeroes() { dd if=/dev/zero bs=1M count="$1" 2> /dev/null; }

# Busybox prefers its own programs, so those of the machine are called by their paths.
step /sbin/nbd-client 10.0.2.2 "$(cat /port)" /dev/nbd0 -N disk -b 512
echo "DISCARDS $(cat /sys/block/nbd0/queue/discard_max_bytes)"
echo "ZEROES $(cat /sys/block/nbd0/queue/write_zeroes_max_bytes)"
echo MARK > /dev/kmsg
step /sbin/blkdiscard /dev/nbd0
noise 20 > /noise
(dd if=/noise bs=1M count=4 2> /dev/null; zeroes 16) > /expected
step dd if=/noise of=/dev/nbd0 bs=1M conv=notrunc,fsync
step head_is /noise
step /sbin/blkdiscard -z -o 4M -l 56M /dev/nbd0
step head_is /expected
step /sbin/blkdiscard -z -o 64M -l 128M /dev/nbd0
step /sbin/mke2fs -q -t ext4 -F -E lazy_itable_init=0 /dev/nbd0 2G
mkdir /disk
step mount -t ext4 -o discard /dev/nbd0 /disk
step cp /noise /disk/one
step cp /noise /disk/two
step sync
step rm /disk/one
step /sbin/fstrim /disk
cold
step cmp /noise /disk/two
step umount /disk
step /sbin/e2fsck -fn /dev/nbd0
echo LOG
dmesg -r
echo END
/sbin/nbd-client -d /dev/nbd0
poweroff -f
