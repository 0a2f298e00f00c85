/* Reports one miss:  cc -o miss miss.c && ./miss SOCKET VDISK */
#include "disktime_miss.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s SOCKET VDISK\n", argv[0]);
        return 2;
    }
    int fd = disktime_miss_open();
    if (fd < 0 || disktime_miss(fd, argv[1], argv[2]) != 0) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
