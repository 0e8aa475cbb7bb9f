// A program whose threads are deep in calls, inlined ones among them, when they
// crash: the subject of the dumps that scripts/dumps/make writes. It is built for
// Windows without a C runtime, and for Linux, with BARE also without one. On Windows
// it loads the DLLs of its folder, if they are there, and calls winpty.
#ifdef _WIN32
using size_t = decltype(sizeof 0);
using HANDLE = void *;
#ifdef _WIN64
#define API __declspec(dllimport)
#define CALL
#else
#define API __declspec(dllimport)
#define CALL __stdcall
#endif
extern "C" {
API void *CALL LoadLibraryA(const char *);
API void *CALL GetProcAddress(void *, const char *);
API HANDLE CALL CreateThread(void *, size_t, unsigned long(CALL *)(void *), void *, unsigned long, unsigned long *);
API unsigned long CALL WaitForSingleObject(HANDLE, unsigned long);
API void CALL ExitProcess(unsigned);
API void CALL Sleep(unsigned long);
int _fltused;
int _purecall() { return 0; }
void *memset(void *p, int c, size_t n) {
  for (volatile char *q = static_cast<char *>(p); n--; *q++ = static_cast<char>(c)) {
  }
  return p;
}
}
#define NOINLINE __declspec(noinline)
#define INLINE __forceinline
#else
#ifndef BARE
#include <pthread.h>
#include <unistd.h>
#else
using size_t = decltype(sizeof 0);
extern "C" void *memset(void *p, int c, size_t n) {
  for (volatile char *q = static_cast<char *>(p); n--; *q++ = static_cast<char>(c)) {
  }
  return p;
}
#endif
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
#endif

volatile int sink, zero;

namespace shapes {

struct Shape {
  virtual int area(int scale) const = 0;
};

template <typename T> struct Ring : Shape {
  T inner, outer;
  Ring(T i, T o) : inner(i), outer(o) {}
  INLINE int square(int x) const { return x * x + sink; }
  NOINLINE int area(int scale) const override {
    int sum = 0;
    for (int i = 0; i < scale; i++)
      sum += square(outer + i) - square(inner);
    return sum;
  }
};

namespace {
INLINE int clamp(int x) {
  if (x > 1000)
    x = 1000 + sink;
  return x;
}

NOINLINE int total(const Shape *const *list, size_t n, int scale) {
  int sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += clamp(list[i]->area(scale));
  return sum;
}
} // namespace
} // namespace shapes

// A large frame.
NOINLINE int large(int n) {
  volatile char buffer[20000];
  for (int i = 0; i < n; i++)
    buffer[i * 64] = static_cast<char>(i);
  return buffer[64] + sink;
}

// Many registers are live over the calls.
NOINLINE int registers(int a, int b, int c, int d) {
  int e = a * b, f = b * c, g = c * d, h = d * a;
  int r = large(a & 15);
  int s = large(b & 15);
  return r + s + e + f + g + h + a + b + c + d;
}

// A frame of variable size.
NOINLINE int variable(int n) {
  int *p = static_cast<int *>(__builtin_alloca(sizeof(int) * (n + 16)));
  for (int i = 0; i < n; i++)
    p[i] = registers(i, n, sink, 3);
  return p[n / 2];
}

INLINE void store(int *where, int what) {
  *where = what; // the crash
}

NOINLINE int deep(int n, int *where) {
  if (n == 0) {
    sink = variable(5);
    store(where, sink);
    return sink;
  }
  return deep(n - 1, where) + n * sink;
}

NOINLINE double floats(double x, int n) {
  double y = x, z = x * 2, w = x * 3;
  for (int i = 0; i < n; i++) {
    sink = registers(i, 2, 3, 4);
    y += z * w;
    z -= x;
  }
  return y + z + w;
}

NOINLINE int work(int n) {
  shapes::Ring<int> small(1, 2);
  shapes::Ring<short> big(3, 40);
  const shapes::Shape *list[] = {&small, &big};
  int sum = shapes::total(list, 2, n);
  sink = static_cast<int>(floats(sum, 3));
  return sum + variable(n);
}

#ifdef _WIN32
template <typename F> F function(void *dll, const char *name) { return reinterpret_cast<F>(GetProcAddress(dll, name)); }

NOINLINE void winpty() {
  void *dll = LoadLibraryA("winpty.dll");
  if (!dll)
    return;
  auto make = function<void *(*)(unsigned long long, void **)>(dll, "winpty_config_new");
  auto size = function<void (*)(void *, int, int)>(dll, "winpty_config_set_initial_size");
  auto mouse = function<void (*)(void *, int)>(dll, "winpty_config_set_mouse_mode");
  auto timeout = function<void (*)(void *, unsigned long)>(dll, "winpty_config_set_agent_timeout");
  auto free = function<void (*)(void *)>(dll, "winpty_config_free");
  auto message = function<const wchar_t *(*)(void *)>(dll, "winpty_error_msg");
  auto freeError = function<void (*)(void *)>(dll, "winpty_error_free");
  auto spawn = function<void *(*)(unsigned long long, const wchar_t *, const wchar_t *, const wchar_t *, const wchar_t *, void **)>(dll, "winpty_spawn_config_new");
  auto open = function<void *(*)(void *, void **)>(dll, "winpty_open");
  void *error = nullptr;
  void *config = make(~0ull, &error); // throws inside
  if (error) {
    sink = message(error)[0];
    freeError(error);
  }
  config = make(0, &error);
  size(config, 100, 40);
  mouse(config, 1);
  timeout(config, 1500);
  sink = static_cast<int>(reinterpret_cast<size_t>(spawn(1, L"cmd.exe", L"cmd.exe /c echo", L"C:\\", L"A=B\0C=D\0", &error)));
  void *w = open(config, &error);
  if (!w && error)
    freeError(error);
  free(config);
}

unsigned long CALL thread(void *arg) {
  sink = work(static_cast<int>(reinterpret_cast<size_t>(arg)));
  Sleep(100000);
  return 0;
}

extern "C" void entry() {
  CreateThread(nullptr, 0, thread, reinterpret_cast<void *>(7), 0, nullptr);
  HANDLE second = CreateThread(nullptr, 0, thread, reinterpret_cast<void *>(9), 0, nullptr);
  WaitForSingleObject(second, 300);
  const char *dlls[] = {"conpty.node", "conpty_console_list.node", "pty.node", "basic64.dll", "basic-opt64.dll", "basic32-min.dll", "basic-opt32.dll",
                        "windows_process_tree.node", "attach_amd64.dll", "attach_x86.dll"};
  for (const char *dll : dlls)
    LoadLibraryA(dll);
#ifdef _WIN64
  winpty();
#endif
  sink = work(5);
  deep(12, nullptr);
  ExitProcess(0);
}
#elif defined(BARE)
extern "C" void __cxa_pure_virtual() { __builtin_trap(); }

extern "C" int host() {
  sink = work(5);
  return deep(12, nullptr);
}
#ifdef __aarch64__
asm(".globl _start\n.type _start, @function\n_start:\n mov x29, #0\n mov x30, #0\n bl host\n brk #1\n.size _start, . - _start\n");
#else
asm(".globl _start\n.type _start, @function\n_start:\n xor %ebp, %ebp\n and $-16, %esp\n call host\n hlt\n.size _start, . - _start\n");
#endif
#else
void *thread(void *arg) {
  sink = work(static_cast<int>(reinterpret_cast<size_t>(arg)));
  pause();
  return nullptr;
}

int main() {
  pthread_t a, b;
  pthread_create(&a, nullptr, thread, reinterpret_cast<void *>(7));
  pthread_create(&b, nullptr, thread, reinterpret_cast<void *>(9));
  usleep(200000);
  sink = work(5);
  return deep(12, nullptr);
}
#endif
