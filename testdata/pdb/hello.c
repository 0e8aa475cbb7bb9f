typedef struct { int a; long long b; } Pair;
int counter = 42;
__declspec(noinline) int sum(Pair *p) { return p->a + counter; }
int entry(void) { Pair p = {1, 2}; return sum(&p); }
