/* Quality of service for open files on a mount of `disktime mount`.
 *
 * A file is best effort when it is opened. A program asks for more by ioctl on the descriptor, at any
 * time and as often as it likes; descriptors that were duplicated share what was granted. The contract
 * ends when the last of them is closed. A refusal is an error of the call:
 *
 *   ENOSPC      the device has not the time: .error says which part, .fits_... what would fit
 *   EPERM       this user may not ask for it
 *   EOPNOTSUPP  promises of rates and latencies need a profile of the device (--profile)
 *   EINVAL      a field is out of its range, or does not go with the others
 *   EMFILE      there are too many open files with contracts
 *   ENOTTY      the file is on no such mount, or is a directory
 *
 * Times are nanoseconds, shares parts per million of the device's time.
 */
#ifndef DISKTIME_H
#define DISKTIME_H

#include <linux/ioctl.h>
#include <linux/types.h>
#include <string.h>
#include <sys/ioctl.h>

#define DISKTIME_VERSION 1

enum disktime_class {
    DISKTIME_CLASS_BEST_EFFORT = 0,
    DISKTIME_CLASS_GUARANTEED_LATENCY = 1, /* needs .reserve_ppm and .latency_ns */
    DISKTIME_CLASS_GUARANTEED_RATE = 2,    /* needs .rate; the reservation follows from it */
    DISKTIME_CLASS_SOFT_REAL_TIME = 3,     /* says DISKTIME_LATE when data came too late */
    DISKTIME_CLASS_BACKGROUND = 4,         /* served when nobody else wants the device */
};

enum disktime_admission {
    DISKTIME_DETERMINISTIC = 0, /* each cycle is kept */
    DISKTIME_STATISTICAL = 1,   /* at most .miss_ppm of the cycles are missed */
    DISKTIME_UNCHECKED = 2,     /* goes first, but nothing is promised */
};

enum disktime_access {
    DISKTIME_READS_AND_WRITES = 0,
    DISKTIME_READS = 1,
    DISKTIME_WRITES = 2,
};

enum disktime_priority {
    DISKTIME_PRIORITY_BACKGROUND = 0,
    DISKTIME_PRIORITY_USUAL = 1,
    DISKTIME_PRIORITY_HIGH = 2, /* 99 parts of 100 beside others that have no promise */
};

enum disktime_error {
    DISKTIME_E_NONE = 0,
    DISKTIME_E_INVALID = 1,
    DISKTIME_E_OVERBOOKED = 2, /* .fits_ppm can be reserved */
    DISKTIME_E_RATE = 3,       /* .fits_rate fits; 0 if no rate does */
    DISKTIME_E_LATENCY = 4,    /* .fits_latency_ns can be kept */
    DISKTIME_E_NO_PROFILE = 5,
    DISKTIME_E_PERMISSION = 6,
    DISKTIME_E_STREAMS = 7,
    DISKTIME_E_PASS_THROUGH = 8, /* the kernel has taken the file over */
};

/* A contract, and the answer to it. */
struct disktime_qos {
    __u32 version;     /* DISKTIME_VERSION */
    __u32 class_;      /* enum disktime_class */
    __u32 reserve_ppm; /* share that it gets whenever it wants it */
    __u32 limit_ppm;   /* share that it never exceeds for long; 0 for all */
    __u32 weight;      /* part of what others leave, 1 to 10000; 0 for the usual 100 */
    __u32 admission;   /* enum disktime_admission, of a rate */
    __u32 miss_ppm;    /* of DISKTIME_STATISTICAL */
    __u32 access;      /* enum disktime_access, of a rate */
    __u64 rate;        /* bytes per second */
    __u64 cycle_ns;    /* how often the rate is kept; 0 to have one chosen */
    __u64 latency_ns;  /* bound on response times */
    __u32 error;       /* enum disktime_error: of the last contract that was asked for */
    __u32 fits_ppm;
    __u64 fits_rate;
    __u64 fits_latency_ns;
};

/* Figures since the file got a contract; zeroes if it never had one. */
struct disktime_stats {
    __u32 version;
    __u32 stream; /* as in .disktime/streams */
    __u64 requests;
    __u64 failed;
    __u64 bytes_read;
    __u64 bytes_written;
    __u64 device_ns;     /* the device's time that it was charged, idling included */
    __u64 idling_ns;     /* time for which the device was left idle for it */
    __u64 cycles;        /* cycles of a rate in which it had work waiting */
    __u64 cycles_missed;
    __u64 waiting;       /* requests */
    __u64 bound_ns;      /* longest time that it can be behind its reservation; 0 without one */
    __u64 behind;        /* times that it was behind by more */
};

/* Figures of the device below the mount. */
struct disktime_device {
    __u32 version;
    __u32 queue_depth;
    __u32 in_flight;    /* pieces at the device */
    __u32 headroom_ppm; /* share that is promised to no file */
    __u32 reserved_ppm; /* share that is reserved for all files together */
    __u32 unused;
    __s64 slack_ns;     /* the slack register: time for which best effort may go before rates */
    __u64 busy_ns;
    __u64 spare_ns;     /* busy time that no file is charged for */
    __u64 idling_ns;    /* time for which the device was left idle for a file */
    __u64 charged_ns;
};

#define DISKTIME_GET _IOR(0xDC, 1, struct disktime_qos)
#define DISKTIME_SET _IOWR(0xDC, 2, struct disktime_qos)
#define DISKTIME_BEST_EFFORT _IO(0xDC, 3)
#define DISKTIME_PRIORITY _IOW(0xDC, 4, __u32)
#define DISKTIME_LATE _IO(0xDC, 5)
#define DISKTIME_STATS _IOR(0xDC, 6, struct disktime_stats)
#define DISKTIME_DEVICE _IOR(0xDC, 7, struct disktime_device)

/* The usual contract, to be changed and set. */
static inline struct disktime_qos disktime_usual(void)
{
    struct disktime_qos qos;
    memset(&qos, 0, sizeof qos);
    qos.version = DISKTIME_VERSION;
    return qos;
}

/* Asks for a share of the device's time. */
static inline int disktime_reserve(int file, unsigned percent)
{
    struct disktime_qos qos = disktime_usual();
    qos.reserve_ppm = percent * 10000;
    return ioctl(file, DISKTIME_SET, &qos);
}

/* Asks for a rate that is kept in each cycle; a cycle of 0 has one chosen. */
static inline int disktime_rate(int file, __u64 bytes_per_second, __u64 cycle_ns)
{
    struct disktime_qos qos = disktime_usual();
    qos.class_ = DISKTIME_CLASS_GUARANTEED_RATE;
    qos.rate = bytes_per_second;
    qos.cycle_ns = cycle_ns;
    return ioctl(file, DISKTIME_SET, &qos);
}

static inline int disktime_prioritize(int file, enum disktime_priority priority)
{
    __u32 number = priority;
    return ioctl(file, DISKTIME_PRIORITY, &number);
}

#endif
