static inline int odd(int n) { return n & 1; }
