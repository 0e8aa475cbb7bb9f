#include "shapes.h"
#include <cstdio>

namespace {
struct Local {
  int value;
  explicit Local(int v) : value(v * 3) {}
  int twice() const { return value * 2; }
};
int hidden(int x) { return x > 3 ? Local(x).twice() : -x; }
}

extern "C" int from_c(int x) { return x ^ 0x55; }

template <typename T> static inline T clamp(T v, T lo, T hi) {
  if (v < lo)
    return lo;
  return v > hi ? hi : v;
}

__attribute__((noinline)) int work(int n) {
  int sum = 0;
  auto step = [&](int k) { sum += shapes::area(shapes::Square(k)) + hidden(k); };
  for (int i = 0; i < n; i++)
    step(clamp(i, 2, 9));
  return sum;
}

int main(int argc, char **argv) {
  struct Inner {
    static int run(int a) { return work(a) + from_c(a); }
  };
  int r = Inner::run(argc) + shapes::total(argc);
  std::printf("%d %s\n", r, argv[0]);
  return r & 1;
}
