#ifndef UTIL_H
#define UTIL_H
int helper(int n, const char *text);
static inline int twice(int n) { return 2 * n; }
#endif
