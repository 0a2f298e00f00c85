/* A high-priority cat:  cc -Iinclude -o priority_cat examples/priority_cat.c && ./priority_cat FILE */
#include "disktime.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char buffer[1 << 20];
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    int file = open(argv[1], O_RDONLY);
    if (file < 0 || disktime_prioritize(file, DISKTIME_PRIORITY_HIGH) != 0) {
        perror(argv[1]);
        return 1;
    }
    for (;;) {
        ssize_t bytes = read(file, buffer, sizeof buffer);
        if (bytes == 0)
            return 0;
        if (bytes < 0 || write(STDOUT_FILENO, buffer, (size_t)bytes) != bytes) {
            perror(argv[1]);
            return 1;
        }
    }
}
