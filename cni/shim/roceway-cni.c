/*
 * roceway-cni, compiled: hands one CNI call to roceway-agent, or starts the plugin that does the work itself.
 *
 * A container runtime starts this once for every pod, often on hosts that have no Python. It knows nothing of rails:
 * it sends environment and stdin to the agent's socket and prints the answer. No agent, a refusal, silence or a cut
 * connection: it closes the connection, and only then becomes the plugin in Python (roceway-cni.d/exec beside it says
 * how), with the same stdin. The agent looks for that close once it holds the pod's lock, so never both of them work
 * (docs/decisions/0010-agent.md). The protocol is cni/agent/protocol.py's; cni/agent/client.py is the same in Python.
 *
 * One static program, no allocation that grows with anything but the configuration, no threads, nothing but libc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef RELEASE
#error "build with -DRELEASE=\"0.1.0\""
#endif

#define PROTOCOL 1
#define REQUEST_MAX (512u << 10) /* bytes; more is done in process */
#define ANSWER_MAX (64u << 20)   /* bytes; a larger frame is nonsense */
#define SEND_WAIT 1000           /* ms for connecting, sending and being begun */
#define ANSWER_WAIT 20000        /* ms for the answer: the agent waits up to 15 s for a pod's lock */
#define DEFAULT_SOCKET "/run/roceway/agent.sock"
#define DEFAULT_STATE_DIR "/var/lib/roceway"
#define ARGUMENTS_MAX 32

enum { BEGUN = 1, REFUSED, STDERR, TRACE, ANSWER };

struct request {
    char magic[4];
    uint16_t protocol, flags;
    uint32_t environment, stdin_length;
};
struct frame {
    uint8_t kind, zero[3];
    uint32_t length;
};
struct text {
    char *data;
    size_t length, room;
};

static int tracing;
static struct timespec born;

static double ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - born.tv_sec) * 1e3 + (now.tv_nsec - born.tv_nsec) / 1e6;
}

static void trace(const char *what)
{
    if (tracing)
        fprintf(stderr, "roceway-cni: %.2f ms %s\n", ms(), what);
}

static void out_of_memory(void)
{
    static const char said[] = "{\"cniVersion\": \"1.0.0\", \"code\": 5, \"msg\": \"roceway-cni: out of memory\"}\n";
    if (write(STDOUT_FILENO, said, sizeof said - 1) < 0)
        _exit(1);
    _exit(1);
}

static void append(struct text *text, const void *data, size_t length)
{
    if (text->length + length > text->room) {
        text->room = (text->length + length) * 2 + 4096;
        text->data = realloc(text->data, text->room);
        if (!text->data)
            out_of_memory();
    }
    memcpy(text->data + text->length, data, length);
    text->length += length;
}

static int write_all(int fd, const char *data, size_t length)
{
    while (length) {
        ssize_t sent = write(fd, data, length);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
        data += sent;
        length -= (size_t)sent;
    }
    return 0;
}

static void read_stdin(struct text *text)
{
    char piece[65536];
    ssize_t got;
    while ((got = read(STDIN_FILENO, piece, sizeof piece)) != 0) {
        if (got > 0)
            append(text, piece, (size_t)got);
        else if (errno != EINTR)
            return;
    }
}

/* --- the two settings that are looked for in the configuration: top-level "agent" and "stateDir" --- */

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at)
        c->at++;
}

/* A string: its inside without the quotes. 0 when it is not closed; *plain is 0 when it holds an escape. */
static int string(struct cursor *c, const char **inside, size_t *length, int *plain)
{
    *inside = ++c->at;
    *plain = 1;
    for (; c->at < c->end && *c->at != '"'; c->at++)
        if (*c->at == '\\') {
            *plain = 0;
            if (++c->at == c->end)
                return 0;
        }
    *length = (size_t)(c->at - *inside);
    return c->at++ < c->end;
}

/* Past a value of any kind, by counting brackets outside of strings. 0 when the text ends before it does. */
static int skip_value(struct cursor *c)
{
    const char *inside;
    size_t length;
    int plain, depth = 0;
    while (c->at < c->end) {
        if (*c->at == '"') {
            if (!string(c, &inside, &length, &plain))
                return 0;
        } else if (*c->at == '{' || *c->at == '[') {
            depth++, c->at++;
        } else if (*c->at == '}' || *c->at == ']') {
            if (depth-- == 0)
                return 1; /* the end of the object that holds the value */
            c->at++;
        } else if (*c->at == ',' && depth == 0) {
            return 1;
        } else {
            c->at++;
        }
        if (depth == 0 && c->at < c->end && strchr("}]\"", c->at[-1]))
            return 1;
    }
    return 0;
}

static int is(const char *inside, size_t length, const char *word)
{
    return length == strlen(word) && !memcmp(inside, word, length);
}

/* A string value without escapes into place[PATH_MAX]; anything else makes place empty: never ask. */
static int setting(struct cursor *c, char *place)
{
    const char *inside;
    size_t length;
    int plain;
    place[0] = 0;
    if (*c->at != '"')
        return skip_value(c);
    if (!string(c, &inside, &length, &plain))
        return 0;
    if (plain && length < PATH_MAX && !memchr(inside, 0, length)) {
        memcpy(place, inside, length);
        place[length] = 0;
    }
    return 1;
}

/* The last of a repeated key wins, as in Python. 0: the text is no such object; in process it gets its proper error. */
static int settings(const struct text *conf, char *agent, char *state)
{
    struct cursor c = {conf->data, conf->data + conf->length};
    const char *key;
    size_t length;
    int plain, good;
    skip_space(&c);
    if (c.at == c.end || *c.at++ != '{')
        return 0;
    for (;;) {
        skip_space(&c);
        if (c.at == c.end)
            return 0;
        if (*c.at == '}')
            return 1;
        if (*c.at != '"' || !string(&c, &key, &length, &plain) || !plain)
            return 0;
        skip_space(&c);
        if (c.at == c.end || *c.at++ != ':')
            return 0;
        skip_space(&c);
        if (c.at == c.end)
            return 0;
        if (is(key, length, "agent"))
            good = setting(&c, agent);
        else if (is(key, length, "stateDir"))
            good = setting(&c, state);
        else
            good = skip_value(&c);
        skip_space(&c);
        if (!good || c.at == c.end || (*c.at != ',' && *c.at != '}'))
            return 0;
        if (*c.at == ',')
            c.at++;
    }
}

/* --- what is sent --- */

static void add_identity(struct text *block, const char *path, char after)
{
    struct stat seen;
    char number[64] = "-";
    if (path[0] && stat(path, &seen) == 0)
        snprintf(number, sizeof number, "%llu:%llu", (unsigned long long)seen.st_dev, (unsigned long long)seen.st_ino);
    append(block, number, strlen(number));
    append(block, &after, 1);
}

static void environment(struct text *block, char **env, const char *pod, const char *state)
{
    static const char release[] = "ROCEWAY_RELEASE=" RELEASE, view[] = "ROCEWAY_VIEW=";
    for (; *env; env++)
        if (!strncmp(*env, "CNI_", 4))
            append(block, *env, strlen(*env) + 1);
    append(block, release, sizeof release);
    append(block, view, sizeof view - 1);
    add_identity(block, "/proc/self/ns/net", ' ');
    add_identity(block, "/proc/self/ns/mnt", ' ');
    add_identity(block, pod, ' ');
    add_identity(block, state, 0);
}

static int open_agent(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = SEND_WAIT / 1000};
    int fd;
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait); /* for connect as well */
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int send_all(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
        at += sent;
        length -= (size_t)sent;
    }
    return 0;
}

/* --- what comes back --- */

static int receive(int fd, void *place, size_t length, double deadline)
{
    char *at = place;
    while (length) {
        struct pollfd door = {.fd = fd, .events = POLLIN};
        double left = deadline - ms();
        if (left <= 0)
            return -1;
        int ready = poll(&door, 1, (int)left + 1);
        if (ready < 0 && errno != EINTR)
            return -1;
        if (ready <= 0)
            continue;
        ssize_t got = recv(fd, at, length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        at += got;
        length -= (size_t)got;
    }
    return 0;
}

/* The exit code, with stdout and stderr said; -1 when the work is to be done in process. */
static int answer(int fd)
{
    double deadline = ms() + SEND_WAIT;
    for (;;) {
        struct frame head;
        char *payload;
        int code;
        if (receive(fd, &head, sizeof head, deadline) || head.length > ANSWER_MAX)
            return -1;
        payload = malloc(head.length + 2u);
        if (!payload || receive(fd, payload, head.length, deadline))
            return -1;
        switch (head.kind) {
        case BEGUN:
            trace("begun");
            deadline = ms() + ANSWER_WAIT;
            break;
        case STDERR:
        case TRACE:
            write_all(STDERR_FILENO, payload, head.length);
            break;
        case ANSWER:
            if (!head.length)
                return -1;
            code = (unsigned char)payload[0];
            trace("answered");
            payload[head.length] = '\n';
            if (head.length > 1)
                write_all(STDOUT_FILENO, payload + 1, head.length);
            return code;
        case REFUSED:
            payload[head.length] = 0;
            trace(payload);
            return -1;
        default:
            return -1;
        }
        free(payload);
    }
}

static int ask(const struct text *conf, char **env)
{
    char agent[PATH_MAX] = DEFAULT_SOCKET, state[PATH_MAX] = DEFAULT_STATE_DIR;
    const char *verb = getenv("CNI_COMMAND"), *pod = getenv("CNI_NETNS");
    struct text block = {0};
    int fd, code = -1;
    if (!strcmp(verb, "VERSION") || conf->length > REQUEST_MAX || (pod && pod[0] && pod[0] != '/'))
        return -1;
    if (!settings(conf, agent, state) || !agent[0] || !state[0])
        return -1;
    fd = open_agent(agent);
    if (fd < 0)
        return -1;
    environment(&block, env, pod ? pod : "", state);
    struct request head = {{'R', 'W', 'A', 'Y'}, PROTOCOL, (uint16_t)tracing, (uint32_t)block.length, (uint32_t)conf->length};
    if (!send_all(fd, &head, sizeof head) && !send_all(fd, block.data, block.length) &&
        !send_all(fd, conf->data, conf->length)) {
        trace("sent");
        code = answer(fd);
    }
    close(fd);
    return code;
}

/* --- the plugin that works by itself --- */

static void fail(const char *what, const char *path)
{
    char said[PATH_MAX * 2 + 512], plain[PATH_MAX * 2];
    int why = errno;
    snprintf(plain, sizeof plain, "%s", path);
    for (char *at = plain; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '?';
    snprintf(said, sizeof said,
             "{\"cniVersion\": \"1.0.0\", \"code\": 5, \"msg\": \"roceway-cni: no agent answers, and the plugin's own "
             "part cannot be started: %s\", \"details\": \"%s: %s; run `roceway-cni install` again\"}\n",
             what, plain, strerror(why));
    write_all(STDOUT_FILENO, said, strlen(said));
    _exit(1);
}

static void give_stdin(const struct text *conf)
{
    int fd = memfd_create("stdin", MFD_CLOEXEC);
    if (fd < 0 || write_all(fd, conf->data, conf->length) || lseek(fd, 0, SEEK_SET) || dup2(fd, STDIN_FILENO) < 0)
        fail("its stdin", "memfd");
}

/* roceway-cni.d/exec: the argument vector, a line each; what begins with "./" is beside that file. */
static void become(const struct text *conf, char **env)
{
    static char folder[PATH_MAX], file[PATH_MAX + 32], text[16384];
    static char places[ARGUMENTS_MAX][PATH_MAX * 2];
    char *words[ARGUMENTS_MAX + 2] = {0};
    int count = 0;
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length <= 0)
        fail("/proc", "/proc/self/exe");
    folder[length] = 0;
    *strrchr(folder, '/') = 0;
    snprintf(file, sizeof file, "%s/roceway-cni.d/exec", folder);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (length <= 0)
        fail("it is not there", file);
    close(fd);
    text[length] = 0;
    for (char *line = strtok(text, "\n"); line && count < ARGUMENTS_MAX; line = strtok(NULL, "\n")) {
        if (!strncmp(line, "./", 2))
            snprintf(places[count], sizeof places[count], "%s/roceway-cni.d/%s", folder, line + 2);
        else
            snprintf(places[count], sizeof places[count], "%s", line);
        words[count] = places[count];
        count++;
    }
    if (tracing && count < ARGUMENTS_MAX)
        words[count] = "--trace";
    trace("in process");
    give_stdin(conf);
    execve(words[0], words, env);
    fail("it cannot be executed", words[0]);
}

int main(int argc, char **argv, char **env)
{
    struct text conf = {0};
    clock_gettime(CLOCK_MONOTONIC, &born);
    for (int i = 1; i < argc; i++)
        tracing |= !strcmp(argv[i], "--trace");
    if (!getenv("CNI_COMMAND")) {
        fputs("roceway-cni " RELEASE ": the CNI plugin; a container runtime calls it. The commands (render, install, "
              "explain, state)\nare those of the roceway-cni in roceway's own environment or image.\n", stderr);
        return 2;
    }
    read_stdin(&conf);
    int code = ask(&conf, env);
    if (code >= 0)
        _exit(code);
    become(&conf, env);
}
