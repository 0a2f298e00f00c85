/* Records standard input at a rate that is kept:
 *   cc -Iinclude -o recorder examples/recorder.c && camera | ./recorder FILE BYTES_PER_SECOND */
#include "disktime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char buffer[128 << 10];
    if (argc != 3) {
        fprintf(stderr, "usage: %s FILE BYTES_PER_SECOND\n", argv[0]);
        return 2;
    }
    int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) {
        perror(argv[1]);
        return 1;
    }
    struct disktime_qos qos = disktime_usual();
    qos.class_ = DISKTIME_CLASS_GUARANTEED_RATE;
    qos.access = DISKTIME_WRITES;
    qos.rate = strtoull(argv[2], NULL, 10);
    while (ioctl(file, DISKTIME_SET, &qos) != 0) {
        if (qos.error == DISKTIME_E_RATE && qos.fits_rate > 0) {
            fprintf(stderr, "recording at most %llu bytes per second\n",
                    (unsigned long long)qos.fits_rate);
            __u64 rate = qos.fits_rate;
            qos = disktime_usual();
            qos.class_ = DISKTIME_CLASS_GUARANTEED_RATE;
            qos.access = DISKTIME_WRITES;
            qos.rate = rate;
        } else if (errno == EOPNOTSUPP && qos.error == DISKTIME_E_NO_PROFILE) {
            fprintf(stderr, "no profile of the device: going first, but nothing is promised\n");
            qos = disktime_usual();
            qos.class_ = DISKTIME_CLASS_GUARANTEED_RATE;
            qos.admission = DISKTIME_UNCHECKED;
            qos.rate = strtoull(argv[2], NULL, 10);
        } else {
            perror(argv[1]);
            return 1;
        }
    }
    for (;;) {
        ssize_t bytes = read(STDIN_FILENO, buffer, sizeof buffer);
        if (bytes == 0)
            return fsync(file) == 0 && close(file) == 0 ? 0 : 1;
        if (bytes < 0 || write(file, buffer, (size_t)bytes) != bytes) {
            perror(argv[1]);
            return 1;
        }
    }
}
