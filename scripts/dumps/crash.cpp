// A program that crashes in a thread, and has Crashpad's handler write its dump: crash HANDLER DATABASE DEPTH.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

// What the handler reads in its parent, at the address of its option.
struct __attribute__((packed)) Exception {
  uint64_t info, context;
  int32_t thread;
};

static Exception exception;
static std::string handler, database, trace;
static volatile int depth, sink;

static void crashed(int, siginfo_t *info, void *context) {
  exception = {reinterpret_cast<uint64_t>(info), reinterpret_cast<uint64_t>(context), static_cast<int32_t>(syscall(SYS_gettid))};
  const pid_t child = fork();
  if (child == 0) {
    execl(handler.c_str(), handler.c_str(), database.c_str(), trace.c_str(), static_cast<char *>(nullptr));
    _exit(99);
  }
  prctl(PR_SET_PTRACER, child, 0, 0, 0);
  int status = 0;
  waitpid(child, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

namespace shapes {
struct Square {
  int side;
  __attribute__((always_inline)) inline int area(int *at) const { return side * *at; }
};

template <typename T> __attribute__((noinline)) int measure(const T &shape, int n, int *at) {
  char room[64];
  snprintf(room, sizeof room, "%d", n);
  sink += room[0];
  if (n > 0) {
    const int m = measure(shape, n - 1, n == 1 ? nullptr : at);
    return m + sink;
  }
  return shape.area(at) + sink;
}
} // namespace shapes

static void *wait_for_ever(void *) {
  for (;;) pause();
}

static int compare(const void *a, const void *b) {
  sink += *static_cast<const int *>(a) - *static_cast<const int *>(b);
  if (depth >= 0) return shapes::measure(shapes::Square{depth}, depth, const_cast<int *>(&sink) + 1);
  return 0;
}

static void *work(void *) {
  int list[] = {3, 1, 2};
  qsort(list, 3, sizeof *list, compare); // frames of the C library between ours
  return nullptr;
}

int main(int, char **argv) {
  char text[80];
  handler = argv[1];
  database = std::string("--database=") + argv[2];
  depth = atoi(argv[3]);
  snprintf(text, sizeof text, "--trace-parent-with-exception=0x%llx", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&exception)));
  trace = text;
  struct sigaction action = {};
  action.sa_sigaction = crashed;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  std::vector<pthread_t> threads(3);
  for (pthread_t &t : threads) pthread_create(&t, nullptr, wait_for_ever, nullptr);
  pthread_t worker;
  pthread_create(&worker, nullptr, work, nullptr);
  pthread_join(worker, nullptr);
  return 0;
}
