/* Preloaded library that counts the operations which change files below one folder, and lets one of them fail.
 *
 * `FAULTS_CONTROL` names a file that holds the struct `control`. All processes of a job map it, forked ones too, so
 * they count together. Operation `at`, counted from 1, does what `mode` says: the process is killed before it (KILL) or
 * after half of a write (TEAR), or the operation fails (FULL: and so does every later one that needs room; BROKEN: only
 * this one). Written for Linux and glibc. Writes through a memory map are not seen, and close() never fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KILL = 1, TEAR, FULL, BROKEN };
enum { RECORDS = 16384, RECORD = 160 };

struct control {
    _Atomic int32_t count;
    int32_t mode, at;
    char folder[PATH_MAX];
    char records[RECORDS][RECORD]; /* "write name", for each operation */
};

static struct control *control;

__attribute__((constructor)) static void attach(void) {
    const char *name = getenv("FAULTS_CONTROL");
    int file = name ? open(name, O_RDWR) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(file);
}

static int path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* The operation's turn: return 0 to go on, 1 to go on with half of it and then call `die`, or -1 with errno to fail. */
static int turn(const char *kind, const char *path, int needs_room, int can_tear) {
    size_t length = strlen(control->folder);
    if (!length || strncmp(path, control->folder, length) || path[length] != '/') return 0;
    int number = atomic_fetch_add(&control->count, 1) + 1;
    if (number <= RECORDS) snprintf(control->records[number - 1], RECORD, "%s %s", kind, path + length + 1);
    if (control->mode == FULL && control->at && number > control->at && needs_room) return errno = ENOSPC, -1;
    if (number != control->at) return 0;
    if (control->mode == TEAR && can_tear) return 1;
    if (control->mode == KILL || control->mode == TEAR) raise(SIGKILL);
    if (control->mode == FULL) return errno = ENOSPC, -1;
    if (control->mode == BROKEN) return errno = EIO, -1;
    return 0;
}

static int turn_of(const char *kind, int descriptor, int needs_room, int can_tear) {
    int saved = errno;
    char path[PATH_MAX];
    if (!control || !path_of(descriptor, path)) return errno = saved, 0;
    errno = saved;
    return turn(kind, path, needs_room, can_tear);
}

static int turn_at(const char *kind, int folder, const char *name, int needs_room) {
    if (!control || !name) return 0;
    int saved = errno;
    char path[2 * PATH_MAX + 2] = "";
    needs_room = needs_room && faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0; /* a new name */
    if (name[0] != '/') {
        if (folder == AT_FDCWD ? !getcwd(path, PATH_MAX) : !path_of(folder, path)) return errno = saved, 0;
        strcat(path, "/");
    }
    strncat(path, name, PATH_MAX);
    errno = saved;
    return turn(kind, path, needs_room, 0);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

/* Writes: (descriptor, data, size, ...). */
#define WRITE(name, parameters, types, arguments, halved) \
    ssize_t name parameters { \
        REAL(ssize_t, name, types); \
        int found = turn_of("write", file, 1, size > 1); \
        if (found < 0) return -1; \
        if (found) { real halved; raise(SIGKILL); } \
        return real arguments; \
    }
#define LIST(...) __VA_ARGS__
WRITE(write, (int file, const void *data, size_t size), LIST(int, const void *, size_t), (file, data, size),
      (file, data, size / 2))
WRITE(pwrite, (int file, const void *data, size_t size, off_t place), LIST(int, const void *, size_t, off_t),
      (file, data, size, place), (file, data, size / 2, place))
WRITE(pwrite64, (int file, const void *data, size_t size, off64_t place), LIST(int, const void *, size_t, off64_t),
      (file, data, size, place), (file, data, size / 2, place))
WRITE(writev, (int file, const struct iovec *data, int size), LIST(int, const struct iovec *, int),
      (file, data, size), (file, data, size / 2))
WRITE(pwritev, (int file, const struct iovec *data, int size, off_t place),
      LIST(int, const struct iovec *, int, off_t), (file, data, size, place), (file, data, size / 2, place))
WRITE(pwritev64, (int file, const struct iovec *data, int size, off64_t place),
      LIST(int, const struct iovec *, int, off64_t), (file, data, size, place), (file, data, size / 2, place))
WRITE(sendfile, (int file, int source, off_t *place, size_t size), LIST(int, int, off_t *, size_t),
      (file, source, place, size), (file, source, place, size / 2))
WRITE(sendfile64, (int file, int source, off64_t *place, size_t size), LIST(int, int, off64_t *, size_t),
      (file, source, place, size), (file, source, place, size / 2))
WRITE(copy_file_range, (int source, off64_t *from, int file, off64_t *to, size_t size, unsigned flags),
      LIST(int, off64_t *, int, off64_t *, size_t, unsigned), (source, from, file, to, size, flags),
      (source, from, file, to, size / 2, flags))

size_t fwrite(const void *data, size_t size, size_t items, FILE *file) {
    REAL(size_t, fwrite, const void *, size_t, size_t, FILE *);
    int found = turn_of("write", fileno(file), 1, items > 1);
    if (found < 0) return 0;
    if (found) {
        real(data, size, items / 2, file);
        fflush(file);
        raise(SIGKILL);
    }
    return real(data, size, items, file);
}

/* Other operations on an open file, and on names. */
#define ON_FILE(name, kind, room, parameters, types, arguments) \
    int name parameters { \
        REAL(int, name, types); \
        return turn_of(kind, file, room, 0) ? -1 : real arguments; \
    }
ON_FILE(fsync, "fsync", 0, (int file), LIST(int), (file))
ON_FILE(fdatasync, "fsync", 0, (int file), LIST(int), (file))
ON_FILE(ftruncate, "truncate", 0, (int file, off_t size), LIST(int, off_t), (file, size))
ON_FILE(ftruncate64, "truncate", 0, (int file, off64_t size), LIST(int, off64_t), (file, size))
ON_FILE(fallocate, "write", 1, (int file, int mode, off_t from, off_t size), LIST(int, int, off_t, off_t),
        (file, mode, from, size))
ON_FILE(fallocate64, "write", 1, (int file, int mode, off64_t from, off64_t size), LIST(int, int, off64_t, off64_t),
        (file, mode, from, size))

#define ON_NAME(name, kind, room, folder, path, parameters, types, arguments) \
    int name parameters { \
        REAL(int, name, types); \
        return turn_at(kind, folder, path, room) ? -1 : real arguments; \
    }
ON_NAME(truncate, "truncate", 0, AT_FDCWD, path, (const char *path, off_t size), LIST(const char *, off_t), (path, size))
ON_NAME(truncate64, "truncate", 0, AT_FDCWD, path, (const char *path, off64_t size), LIST(const char *, off64_t),
        (path, size))
ON_NAME(rename, "rename", 0, AT_FDCWD, to, (const char *from, const char *to), LIST(const char *, const char *),
        (from, to))
ON_NAME(renameat, "rename", 0, folder, to, (int source, const char *from, int folder, const char *to),
        LIST(int, const char *, int, const char *), (source, from, folder, to))
ON_NAME(renameat2, "rename", 0, folder, to, (int source, const char *from, int folder, const char *to, unsigned flags),
        LIST(int, const char *, int, const char *, unsigned), (source, from, folder, to, flags))
ON_NAME(link, "link", 1, AT_FDCWD, to, (const char *from, const char *to), LIST(const char *, const char *), (from, to))
ON_NAME(linkat, "link", 1, folder, to, (int source, const char *from, int folder, const char *to, int flags),
        LIST(int, const char *, int, const char *, int), (source, from, folder, to, flags))
ON_NAME(symlink, "link", 1, AT_FDCWD, to, (const char *from, const char *to), LIST(const char *, const char *),
        (from, to))
ON_NAME(symlinkat, "link", 1, folder, to, (const char *from, int folder, const char *to),
        LIST(const char *, int, const char *), (from, folder, to))
ON_NAME(unlink, "unlink", 0, AT_FDCWD, path, (const char *path), LIST(const char *), (path))
ON_NAME(unlinkat, "unlink", 0, folder, path, (int folder, const char *path, int flags), LIST(int, const char *, int),
        (folder, path, flags))
ON_NAME(remove, "unlink", 0, AT_FDCWD, path, (const char *path), LIST(const char *), (path))
ON_NAME(rmdir, "unlink", 0, AT_FDCWD, path, (const char *path), LIST(const char *), (path))
ON_NAME(mkdir, "mkdir", 1, AT_FDCWD, path, (const char *path, mode_t mode), LIST(const char *, mode_t), (path, mode))
ON_NAME(mkdirat, "mkdir", 1, folder, path, (int folder, const char *path, mode_t mode), LIST(int, const char *, mode_t),
        (folder, path, mode))

/* Opening a file that is created or emptied by it. */
#define OPEN(name, folder, parameters, types, ...) \
    int name parameters { \
        REAL(int, name, types); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if ((flags & (O_CREAT | O_TRUNC) || (flags & O_TMPFILE) == O_TMPFILE) && turn_at("open", folder, path, 1)) return -1; \
        return real(__VA_ARGS__, flags, mode); \
    }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...), LIST(const char *, int, ...), path)
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), LIST(const char *, int, ...), path)
OPEN(openat, folder, (int folder, const char *path, int flags, ...), LIST(int, const char *, int, ...), folder, path)
OPEN(openat64, folder, (int folder, const char *path, int flags, ...), LIST(int, const char *, int, ...), folder, path)

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(FILE *, name, const char *, const char *); \
        return mode[0] != 'r' && turn_at("open", AT_FDCWD, path, 1) ? NULL : real(path, mode); \
    }
FOPEN(fopen)
FOPEN(fopen64)
