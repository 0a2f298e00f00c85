/* Tells disktime that data came too late: for players, recorders, and whatever else has deadlines.
 *
 *     int fd = disktime_miss_open();
 *     ...
 *     if (late)
 *         disktime_miss(fd, "/run/disktime/misses.sock", "video");
 *
 * The path is what `misses` in the daemon's [server] says, the name that of the virtual disk, which is
 * of class soft-real-time. A call never waits, and a report that can't be sent is simply lost: the next
 * miss is the next try, also after the daemon was restarted. Report each miss; the daemon counts at
 * most one a second. Needs nothing but POSIX sockets. */
#ifndef DISKTIME_MISS_H
#define DISKTIME_MISS_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A descriptor for reports, or -1 with errno. Close it with close(). */
static inline int disktime_miss_open(void)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* Reports a miss of that virtual disk. 0 if sent, else -1 with errno: ENOENT or ECONNREFUSED if no
 * daemon listens, EAGAIN if it has no room now, ENAMETOOLONG if the path is too long for a socket. */
static inline int disktime_miss(int fd, const char *path, const char *vdisk)
{
    struct sockaddr_un to;
    size_t length = strlen(path);
    if (length >= sizeof to.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memset(&to, 0, sizeof to);
    to.sun_family = AF_UNIX;
    memcpy(to.sun_path, path, length);
    return sendto(fd, vdisk, strlen(vdisk), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to) < 0
               ? -1
               : 0;
}

#endif
