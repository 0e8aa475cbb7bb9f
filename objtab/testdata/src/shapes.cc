#include "shapes.h"

namespace shapes {
static int helper(int a, int b) {
  int r = 0;
  while (a > 0) {
    r += area(Square(a));
    a -= b;
  }
  return r;
}
__attribute__((noinline)) int total(int n) {
  if (n > 100)
    return helper(n, 3);
  return helper(n + 1, 2) + area(Square(n));
}
}
