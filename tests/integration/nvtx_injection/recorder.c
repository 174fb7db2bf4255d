/* A tool for NVTX that writes down what reaches it, for tests.
 *
 * NVTX loads the library at NVTX_INJECTION64_PATH on its first call and hands it a function that
 * returns the table of entry points. Every push, pop and registered string becomes one line of the
 * file at NVTX_RECORD_PATH: thread, event, domain and name, with tabs between. Threads count from 0
 * in the order in which they are first heard of.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODULE_CORE = 1, MODULE_CORE2 = 5, TABLE_OF_CALLBACKS = 1 };
enum { CORE_PUSH_EX = 8, CORE_PUSH_A = 9, CORE_POP = 11 };
enum { CORE2_PUSH_EX = 4, CORE2_POP = 5, CORE2_REGISTER_STRING_A = 10, CORE2_CREATE_A = 12 };
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

typedef void (*function)(void);

struct callbacks {
    size_t size;
    int (*get_functions)(int module, function ***table, unsigned int *count);
};

struct event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
_Static_assert(sizeof(struct event) == 48, "the layout of version 3");

/* A registered string or a domain. What is not in the list was not handed out by this process. */
struct named {
    struct named *next;
    char text[];
};

static struct named *all_named;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int num_threads;
static _Thread_local int thread = -1;

static void record(const char *event, const char *domain, const char *name) {
    char line[4096];
    pthread_mutex_lock(&lock);
    if (thread < 0) thread = num_threads++;
    int length = snprintf(line, sizeof line, "%d\t%s\t%s\t%s\n", thread, event, domain, name);
    int file = open(getenv("NVTX_RECORD_PATH"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (file < 0 || write(file, line, (size_t)length) != length) abort();
    close(file);
    pthread_mutex_unlock(&lock);
}

static const void *hand_out(const char *text) {
    struct named *made = malloc(sizeof *made + strlen(text) + 1);
    if (!made) abort();
    strcpy(made->text, text);
    pthread_mutex_lock(&lock);
    made->next = all_named;
    all_named = made;
    pthread_mutex_unlock(&lock);
    return made;
}

static const char *text_of(const void *handle) {
    const char *text = "<not handed out by this process>";
    pthread_mutex_lock(&lock);
    for (struct named *each = all_named; each; each = each->next)
        if (each == handle) text = each->text;
    pthread_mutex_unlock(&lock);
    return text;
}

static const char *domain_of(const void *domain) { return domain ? text_of(domain) : "default"; }

static int domain_push_ex(const void *domain, const struct event *event) {
    const char *name = "<no message>";
    if (event->version != 3 || event->size != sizeof *event) name = "<unknown layout>";
    else if (event->message_type == MESSAGE_ASCII) name = event->message;
    else if (event->message_type == MESSAGE_REGISTERED) name = text_of(event->message);
    record("push", domain_of(domain), name);
    return 0;
}

static int domain_pop(const void *domain) {
    record("pop", domain_of(domain), "");
    return 0;
}

static int push_ex(const struct event *event) { return domain_push_ex(NULL, event); }

static int push_a(const char *name) {
    record("push", "default", name);
    return 0;
}

static int pop(void) { return domain_pop(NULL); }

static const void *register_string(const void *domain, const char *text) {
    record("register", domain_of(domain), text);
    return hand_out(text);
}

int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t)) {
    const struct callbacks *callbacks = get_table(TABLE_OF_CALLBACKS);
    function **table;
    unsigned int count;
    if (!callbacks || !callbacks->get_functions(MODULE_CORE, &table, &count)) return 0;
    *table[CORE_PUSH_EX] = (function)push_ex;
    *table[CORE_PUSH_A] = (function)push_a;
    *table[CORE_POP] = (function)pop;
    if (!callbacks->get_functions(MODULE_CORE2, &table, &count)) return 0;
    *table[CORE2_PUSH_EX] = (function)domain_push_ex;
    *table[CORE2_POP] = (function)domain_pop;
    *table[CORE2_REGISTER_STRING_A] = (function)register_string;
    *table[CORE2_CREATE_A] = (function)hand_out;
    return 1;
}
