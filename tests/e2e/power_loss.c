/* A disk that loses what was not synced, for tests: loaded into a server by LD_PRELOAD, never shipped.
 *
 *   POWER_LOSS_DATA    the data directory, absolute
 *   POWER_LOSS_MIRROR  what is durable of it:
 *                        f<id>          the bytes of a file: those of its last fsync or fdatasync
 *                        d<id>/<name>   the names in a directory as of its last fsync: links to f<id>, or
 *                                       symbolic links to d<id>
 *                        root           the id of the data directory
 *   POWER_LOSS_IGNORE  a planted bug: "journal" (syncs of *.log do nothing), "directories" (nor those of
 *                      directories), "tables" (of *.sst), "manifest"
 *   POWER_LOSS_KILL_AT the process is killed before its n-th change of a name or sync; a file "kill" in the
 *                      mirror with a number says so from when it is there
 *
 * An id is inode and time of birth, so that a number that is used again is another file. A rename between
 * two directories is durable when one of them is synced, as on file systems with a journal. sync_file_range
 * makes nothing durable. Nothing is really synced: what the mirror has is in the kernel. Writes by io_uring or
 * into a mapped file would not be seen; the store makes none.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536
#define ID 64
#define RENAMES 64

struct file {
    char id[ID];
    int is_directory;
    /* Written and not synced: a range of bytes, or the size too. */
    off_t from, to;
    int is_cut;
    struct file *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files[4096];
static struct file *of_fd[FDS];
static char data[PATH_MAX], mirror[PATH_MAX];
static const char *ignored = "";
static long kill_at, changes;
static struct { char one[PATH_MAX], other[PATH_MAX]; } renames[RENAMES];
static int renamed;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static int is_on(void) { return mirror[0] != 0; }

static void change(void) {
    if (!is_on()) return;
    if (!kill_at) {
        char path[PATH_MAX + 8], number[32] = "";
        int saved = errno;
        snprintf(path, sizeof path, "%s/kill", mirror);
        int fd = REAL(open)(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            if (read(fd, number, sizeof number - 1) > 0) kill_at = atol(number);
            REAL(close)(fd);
        }
        errno = saved;
    }
    if (kill_at && __atomic_add_fetch(&changes, 1, __ATOMIC_SEQ_CST) == kill_at) kill(getpid(), SIGKILL);
}

static int identify(int directory, const char *path, int flags, char *id, mode_t *mode) {
    struct statx found;
    if (statx(directory, path, flags, STATX_BASIC_STATS | STATX_BTIME, &found)) return -1;
    unsigned long long number = found.stx_ino, born = found.stx_btime.tv_sec;
    snprintf(id, ID, "%llx-%llx-%x", number, born, found.stx_btime.tv_nsec);
    *mode = found.stx_mode;
    return 0;
}

/* Whether the path of a descriptor lies in the data directory, and which it is. */
static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    size_t prefix = strlen(data);
    return !strncmp(path, data, prefix) && (path[prefix] == '/' || !path[prefix]);
}

static struct file *entry(const char *id, int is_directory) {
    unsigned hash = 5381;
    for (const char *letter = id; *letter; letter++) hash = hash * 33 + (unsigned char)*letter;
    struct file **at = &files[hash % 4096];
    for (struct file *file = *at; file; file = file->next)
        if (!strcmp(file->id, id)) return file;
    struct file *file = calloc(1, sizeof *file);
    strcpy(file->id, id);
    file->is_directory = is_directory;
    file->next = *at;
    return *at = file;
}

static void opened(int fd, int flags) {
    if (!is_on() || fd < 0 || fd >= FDS) return;
    char path[PATH_MAX], id[ID];
    mode_t mode;
    int saved = errno;
    of_fd[fd] = NULL;
    int is_inside = path_of(fd, path) && !identify(fd, "", AT_EMPTY_PATH, id, &mode);
    if (is_inside && (S_ISREG(mode) || S_ISDIR(mode))) {
        pthread_mutex_lock(&lock);
        of_fd[fd] = entry(id, S_ISDIR(mode));
        if (flags & O_TRUNC) of_fd[fd]->is_cut = 1;
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
}

static void dirty(int fd, off_t from, off_t to, int is_cut) {
    if (fd < 0 || fd >= FDS || !of_fd[fd] || to < from) return;
    pthread_mutex_lock(&lock);
    struct file *file = of_fd[fd];
    if (file) {
        if (file->from == file->to) file->from = from, file->to = to;
        if (from < file->from) file->from = from;
        if (to > file->to) file->to = to;
        file->is_cut |= is_cut;
    }
    pthread_mutex_unlock(&lock);
}

static void dirty_all(int fd) {
    struct stat found;
    if (fd >= 0 && fd < FDS && of_fd[fd] && !fstat(fd, &found)) dirty(fd, 0, found.st_size, 1);
}

static void written(int fd, ssize_t count) {
    if (count <= 0 || fd < 0 || fd >= FDS || !of_fd[fd]) return;
    int saved = errno;
    off_t end = lseek(fd, 0, SEEK_CUR);
    dirty(fd, end - count, end, 0);
    errno = saved;
}

/* Makes the bytes of a file durable. */
static void keep_bytes(const char *path, struct file *file, off_t from, off_t to, int is_cut) {
    char target[2 * PATH_MAX];
    snprintf(target, sizeof target, "%s/f%s", mirror, file->id);
    int in = REAL(open)(path, O_RDONLY | O_CLOEXEC);
    int out = REAL(open)(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char *buffer = malloc(1 << 16);
    while (in >= 0 && from < to) {
        ssize_t got = pread(in, buffer, to - from < 1 << 16 ? to - from : 1 << 16, from);
        if (got <= 0 || REAL(pwrite)(out, buffer, got, from) != got) break;
        from += got;
    }
    struct stat found;
    if (is_cut && in >= 0 && !fstat(in, &found) && REAL(ftruncate)(out, found.st_size)) abort();
    free(buffer);
    REAL(close)(in);
    REAL(close)(out);
}

static void keep_names(const char *path, int is_deep);

static void keep_name(int directory, const char *path, const char *name, const char *of, int is_deep) {
    char id[ID], symbol[ID + 2], target[3 * PATH_MAX];
    char own[2 * PATH_MAX], draft[2 * PATH_MAX], below[2 * PATH_MAX];
    mode_t mode;
    if (identify(directory, name, AT_SYMLINK_NOFOLLOW, id, &mode)) return;
    if (!S_ISREG(mode) && !S_ISDIR(mode)) return;
    snprintf(target, sizeof target, "%s/d%s/%s", mirror, of, name);
    snprintf(own, sizeof own, "%s/%c%s", mirror, S_ISDIR(mode) ? 'd' : 'f', id);
    snprintf(draft, sizeof draft, "%s/draft", mirror);
    snprintf(below, sizeof below, "%s/%s", path, name);
    REAL(unlink)(draft);
    if (S_ISDIR(mode)) {
        REAL(mkdir)(own, 0700);
        snprintf(symbol, sizeof symbol, "d%s", id);
        if (symlink(symbol, draft) || REAL(rename)(draft, target)) abort();
        if (is_deep) keep_names(below, 1);
        return;
    }
    struct stat now, before;
    if (is_deep) {
        struct file whole = {.is_directory = 0};
        strcpy(whole.id, id);
        keep_bytes(below, &whole, 0, 1L << 40, 1);
    }
    int out = REAL(open)(own, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (out < 0) abort();
    REAL(close)(out);
    if (!stat(own, &now) && !lstat(target, &before) && now.st_ino == before.st_ino) return;
    if (REAL(link)(own, draft) || REAL(rename)(draft, target)) abort();
}

/* Makes the names in a directory durable: those that came, then those that went. */
static void keep_names(const char *path, int is_deep) {
    char id[ID], target[2 * PATH_MAX];
    mode_t mode;
    if (identify(AT_FDCWD, path, 0, id, &mode)) return;
    snprintf(target, sizeof target, "%s/d%s", mirror, id);
    REAL(mkdir)(target, 0700);
    DIR *directory = opendir(path);
    if (!directory) return;
    for (struct dirent *found; (found = readdir(directory));)
        if (strcmp(found->d_name, ".") && strcmp(found->d_name, ".."))
            keep_name(dirfd(directory), path, found->d_name, id, is_deep);
    DIR *kept = opendir(target);
    for (struct dirent *found; kept && (found = readdir(kept));) {
        struct stat there;
        if (fstatat(dirfd(directory), found->d_name, &there, AT_SYMLINK_NOFOLLOW))
            REAL(unlinkat)(dirfd(kept), found->d_name, 0);
    }
    if (kept) closedir(kept);
    closedir(directory);
}

static int is_ignored(const char *path, int is_directory) {
    size_t length = strlen(path);
    const char *ending = length > 4 ? path + length - 4 : path;
    return (!strcmp(ignored, "journal") && !strcmp(ending, ".log")) ||
           (!strcmp(ignored, "tables") && !strcmp(ending, ".sst")) ||
           (!strcmp(ignored, "manifest") && strstr(path, "/MANIFEST-")) ||
           (!strcmp(ignored, "directories") && is_directory);
}

/* Whether the mirror does it. */
static int sync_file(int fd) {
    if (!is_on() || fd < 0 || fd >= FDS || !of_fd[fd]) return 0;
    change();
    char path[PATH_MAX], readable[64];
    int saved = errno;
    int is_inside = path_of(fd, path);
    pthread_mutex_lock(&lock);
    struct file *file = of_fd[fd];
    if (is_ignored(path, file->is_directory)) {
    } else if (file->is_directory) {
        if (is_inside) keep_names(path, 0);
        for (int at = 0; at < renamed; at++) {
            if (!strcmp(renames[at].one, path)) keep_names(renames[at].other, 0);
            if (!strcmp(renames[at].other, path)) keep_names(renames[at].one, 0);
        }
    } else {
        snprintf(readable, sizeof readable, "/proc/self/fd/%d", fd);
        off_t from = file->from, to = file->to;
        int is_cut = file->is_cut;
        file->from = file->to = file->is_cut = 0;
        keep_bytes(readable, file, from, to, is_cut);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("POWER_LOSS_DATA"), *into = getenv("POWER_LOSS_MIRROR");
    if (!directory || !into) return;
    if (getenv("POWER_LOSS_IGNORE")) ignored = getenv("POWER_LOSS_IGNORE");
    if (getenv("POWER_LOSS_KILL_AT")) kill_at = atol(getenv("POWER_LOSS_KILL_AT"));
    snprintf(data, sizeof data, "%s", directory);
    snprintf(mirror, sizeof mirror, "%s", into);
    char root[2 * PATH_MAX], id[ID];
    mode_t mode;
    snprintf(root, sizeof root, "%s/root", mirror);
    if (!access(root, F_OK) || identify(AT_FDCWD, data, 0, id, &mode)) return;
    /* What is there at the beginning is durable. */
    keep_names(data, 1);
    FILE *file = fopen(root, "w");
    fputs(id, file);
    fclose(file);
}

static mode_t mode_of(int flags, va_list more) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        va_list more;                                                     \
        va_start(more, flags);                                            \
        mode_t mode = mode_of(flags, more);                               \
        va_end(more);                                                     \
        int fd = REAL(name)(path, flags, mode);                           \
        opened(fd, flags);                                                \
        return fd;                                                        \
    }
#define OPENAT(name)                                                      \
    int name(int directory, const char *path, int flags, ...) {           \
        va_list more;                                                     \
        va_start(more, flags);                                            \
        mode_t mode = mode_of(flags, more);                               \
        va_end(more);                                                     \
        int fd = REAL(name)(directory, path, flags, mode);                \
        opened(fd, flags);                                                \
        return fd;                                                        \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    if (fd >= 0 && fd < FDS) of_fd[fd] = NULL;
    return REAL(close)(fd);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t done = REAL(write)(fd, bytes, count);
    written(fd, done);
    return done;
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t done = REAL(writev)(fd, parts, count);
    written(fd, done);
    return done;
}
#define PWRITE(name, type)                                                \
    ssize_t name(int fd, const void *bytes, size_t count, type place) {   \
        ssize_t done = REAL(name)(fd, bytes, count, place);               \
        if (done > 0) dirty(fd, place, place + done, 0);                  \
        return done;                                                      \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
#define PWRITEV(name, type)                                               \
    ssize_t name(int fd, const struct iovec *parts, int count, type at) { \
        ssize_t done = REAL(name)(fd, parts, count, at);                  \
        if (done > 0) dirty(fd, at, at + done, 0);                        \
        return done;                                                      \
    }
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t count, unsigned flags) {
    ssize_t done = REAL(copy_file_range)(in, from, out, to, count, flags);
    dirty_all(out);
    return done;
}
ssize_t sendfile64(int out, int in, off64_t *from, size_t count);
ssize_t sendfile64(int out, int in, off64_t *from, size_t count) {
    ssize_t done = ((ssize_t (*)(int, int, off64_t *, size_t))real("sendfile64"))(out, in, from, count);
    dirty_all(out);
    return done;
}
int ftruncate(int fd, off_t size) {
    int done = REAL(ftruncate)(fd, size);
    dirty_all(fd);
    return done;
}
int ftruncate64(int fd, off64_t size) {
    int done = REAL(ftruncate64)(fd, size);
    dirty_all(fd);
    return done;
}
int fallocate(int fd, int mode, off_t from, off_t size) {
    int done = REAL(fallocate)(fd, mode, from, size);
    if (mode != FALLOC_FL_KEEP_SIZE) dirty_all(fd);
    return done;
}
int fallocate64(int fd, int mode, off64_t from, off64_t size) {
    int done = REAL(fallocate64)(fd, mode, from, size);
    if (mode != FALLOC_FL_KEEP_SIZE) dirty_all(fd);
    return done;
}
int posix_fallocate64(int fd, off64_t from, off64_t size) {
    int done = REAL(posix_fallocate64)(fd, from, size);
    dirty_all(fd);
    return done;
}

int fsync(int fd) { return sync_file(fd) ? 0 : REAL(fsync)(fd); }
int fdatasync(int fd) { return sync_file(fd) ? 0 : REAL(fdatasync)(fd); }
int sync_file_range(int fd, off64_t from, off64_t count, unsigned flags) {
    return is_on() && fd >= 0 && fd < FDS && of_fd[fd] ? 0 : REAL(sync_file_range)(fd, from, count, flags);
}

/* Notes that a name has gone from one directory to another. */
static void note_rename(const char *from, const char *to) {
    char one[PATH_MAX], other[PATH_MAX], full[PATH_MAX];
    if (!is_on() || !realpath(to, full) || strncmp(full, data, strlen(data))) return;
    snprintf(other, sizeof other, "%.*s", (int)(strrchr(full, '/') - full), full);
    const char *end = strrchr(from, '/');
    snprintf(one, sizeof one, "%.*s", end ? (int)(end - from) : 1, end ? from : ".");
    if (!realpath(one, full) || !strcmp(full, other) || strncmp(full, data, strlen(data))) return;
    pthread_mutex_lock(&lock);
    int at = renamed < RENAMES ? renamed++ : RENAMES - 1;
    strcpy(renames[at].one, full);
    strcpy(renames[at].other, other);
    pthread_mutex_unlock(&lock);
}

int rename(const char *from, const char *to) {
    change();
    int done = REAL(rename)(from, to);
    if (!done) note_rename(from, to);
    return done;
}
int unlink(const char *path) {
    change();
    return REAL(unlink)(path);
}
int unlinkat(int directory, const char *path, int flags) {
    change();
    return REAL(unlinkat)(directory, path, flags);
}
int rmdir(const char *path) {
    change();
    return REAL(rmdir)(path);
}
int mkdir(const char *path, mode_t mode) {
    change();
    return REAL(mkdir)(path, mode);
}
int link(const char *from, const char *to) {
    change();
    return REAL(link)(from, to);
}
int linkat(int in, const char *from, int at, const char *to, int flags) {
    change();
    return REAL(linkat)(in, from, at, to, flags);
}
