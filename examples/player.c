/* A player of constant rate that says when it was late.
 *
 *     cc -O2 -o player player.c
 *     ./player FILE BYTES_PER_SECOND SECONDS [SOCKET VDISK]
 *
 * Every tenth of a second it needs the next tenth of the rate. */
#define _POSIX_C_SOURCE 200809L

#include "disktime_miss.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 10 };

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6) {
        fprintf(stderr, "usage: %s FILE BYTES_PER_SECOND SECONDS [SOCKET VDISK]\n", argv[0]);
        return 2;
    }
    int file = open(argv[1], O_RDONLY);
    size_t part = strtoul(argv[2], NULL, 10) / PARTS;
    long parts = strtol(argv[3], NULL, 10) * PARTS, misses = 0, unsent = 0;
    char *bytes = malloc(part + 1);
    int fd = disktime_miss_open();
    if (file < 0 || fd < 0 || bytes == NULL || part == 0) {
        perror(argv[1]);
        return 2;
    }
    double due = now() + 1.0 / PARTS;
    for (long at = 0; at < parts; at++, due += 1.0 / PARTS) {
        ssize_t got = read(file, bytes, part);
        if (got < 0) {
            perror(argv[1]);
            return 1;
        }
        if (got == 0 && lseek(file, 0, SEEK_SET) != 0)
            break;
        if (now() > due) {
            misses++;
            if (argc == 6 && disktime_miss(fd, argv[4], argv[5]) != 0)
                unsent++;
            due = now(); /* it stood still, and plays on from here */
        }
        double left = due - now();
        if (left > 0) {
            struct timespec rest = { (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };
            nanosleep(&rest, NULL);
        }
    }
    printf("%ld misses, %ld of them not sent\n", misses, unsent);
    return misses > 0;
}
