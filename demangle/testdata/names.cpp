// Names of every form that the Microsoft C++ ABI has and clang can write.
// clang++-19 --target=x86_64-pc-windows-msvc -std=c++20 -O0 -c names.cpp
typedef decltype(sizeof 0) size_t;
typedef decltype(nullptr) nullptr_t;
void *operator new(size_t, void *p) noexcept { return p; }
void *operator new(size_t n, int, char);
void *operator new[](size_t n, int);
void operator delete(void *, int, char);
template <class... T> void use(T &&...) {}
namespace std {
struct strong_ordering { int v; };
template <class T> struct allocator { T *allocate(size_t n); };
template <class C> struct char_traits {};
template <class C, class T = char_traits<C>, class A = allocator<C>> struct basic_string {
  basic_string(); basic_string(const C *); ~basic_string();
  basic_string &operator=(const basic_string &); basic_string &append(const C *, size_t);
  C &operator[](size_t); struct iterator { C *p; iterator &operator++(); }; iterator begin() const;
};
typedef basic_string<char> string; typedef basic_string<wchar_t> wstring;
template <class A, class B> struct pair { A first; B second; };
template <class K, class V, class L, class A = allocator<pair<const K, V>>> struct map {
  V &operator[](const K &); void swap(map &) noexcept; bool operator==(const map &) const;
};
template <class T> struct less {};
template <class T, class A = allocator<T>> struct vector { void push_back(T &&); void push_back(const T &); vector(vector &&) noexcept; vector(); ~vector(); T *data() const &; T *data() &&; };
template <class> struct function;
template <class R, class... A> struct function<R(A...)> { R operator()(A...) const; function(R (*)(A...)); template <class F> function(F &&); };
template <class... T> struct tuple { tuple(T...); };
template <class T, T... I> struct integer_sequence {};
template <class R, class...> struct coroutine_traits { using promise_type = typename R::promise_type; };
template <class P = void> struct coroutine_handle { static coroutine_handle from_address(void *) noexcept; static coroutine_handle from_promise(P &); void *address() const noexcept; operator coroutine_handle<>() const; };
template <> struct coroutine_handle<void> { static coroutine_handle from_address(void *) noexcept; void *address() const noexcept; };
struct suspend_never { bool await_ready() noexcept; void await_suspend(coroutine_handle<>) noexcept; void await_resume() noexcept; };
}
// Primitives
void p1(bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, long long, unsigned long long) {}
void p2(float, double, long double, wchar_t, char16_t, char32_t, char8_t, nullptr_t, void *) {}
#ifdef _WIN64
void p3(__int128, unsigned __int128) {}
#endif
void p4(...) {} void p5(int, ...) {} int p6() { return 0; } const int p7() { return 0; }
#ifdef _WIN64
void p8(_Float16, __bf16 *) {}
__attribute__((swiftasynccall)) void j7(char *) {}
#endif
// Pointers and references
void q1(int *, const int *, volatile int *, const volatile int *, int *const, int **, const int *const *, int *__restrict) {}
void q2(int &, const int &, int &&, const int &&, volatile int &, int *&, const char *const &) {}
void q3(int (*)(int), void (*)(int (*)(int), char (*)(void)), int (*const *)(int), int (&)(int), int (&&)(int)) {}
int (*q4(int))(char) { return nullptr; }
int (*(*q5(int))(char))[3] { return nullptr; }
int (&q6())[4] { static int a[4]; return a; }
void q7(int[3], int (*)[3], int (&)[3][4], const int (*)[5], int (*)[], const char *(*)[2]) {}
void q8(int __unaligned *, const int __unaligned *__restrict) {}
void q9(void (*)() noexcept, int (*)(int) noexcept) {}
struct S; class C; union U; enum E { e0 }; enum class EC : unsigned char { a, b };
void t1(S, S *, const S &, C, C *, U *, E, EC, E *, const EC &);
struct S { int m; const char *n; void f(int); void g() const; void h() volatile; void i() const volatile; void j() &; void k() &&; void l() const &; void n1() const && noexcept; static int s; static void st(int); virtual void v(); virtual ~S(); int bits : 3;
  private: void pf(); static void pst(); virtual void pv(); static int ps; protected: void of(); static void ost(); virtual void ov(); static int os; };
class C { public: C(); C(const C &); C(C &&); explicit C(int); ~C(); C &operator=(const C &); };
union U { int a; U(int); void f(); };
void t1(S, S *, const S &, C, C *, U *, E, EC, E *, const EC &) {}
void S::f(int) {} void S::g() const {} void S::h() volatile {} void S::i() const volatile {} void S::j() & {} void S::k() && {} void S::l() const & {} void S::n1() const && noexcept {}
int S::s; int S::ps; int S::os; void S::st(int) {} void S::v() {} S::~S() {} void S::pf() {} void S::pst() {} void S::pv() {} void S::of() {} void S::ost() {} void S::ov() {}
C::C() {} C::C(const C &) {} C::C(C &&) {} C::C(int) {} C::~C() {} C &C::operator=(const C &) { return *this; } U::U(int) {} void U::f() {}
// Member pointers
void m1(int S::*, const char *S::*, void (S::*)(int), void (S::*)() const, int S::*const S::*) {}
void (S::*m2(int))(int) { return &S::f; }
int S::*m3 = &S::m; void (S::*m4)(int) = &S::f; const int S::*m5; int S::*const *m6; void (S::**m7)() const & = nullptr;
struct V1 : virtual S { int q; void vf(); }; struct M1 : C, S { int q; void mf(); void v() override; ~M1(); }; struct Fwd;
void m8(void (V1::*)(), void (M1::*)(), int V1::*, void (Fwd::*)(), int Fwd::*) {}
void V1::vf() {} void M1::mf() {} void M1::v() {} M1::~M1() {}
// Variables
int v1; const int *v2 = &v1; extern const int v3; const int v3 = 1; int v4[3]; extern const int v5[2]; const int v5[2] = {1, 2}; int *const *v6; int (*v7)(int); int (*v8[3])(int); S *v9; const S *const v10 = nullptr; extern const S *const v11; const S *const v11 = nullptr;
int &v12 = v1; int &&v13 = 3; volatile int v14; thread_local int v15 = p6(); int (&v16)[3] = v4; const EC v17 = EC::a; extern const volatile EC v18; const volatile EC v18 = EC::b;
int *__restrict v19; int __unaligned *v20; template <class T> T v21; template int v21<int>; template const S *v21<const S *>; template <class T> struct VT { static T x; static const T *y; }; template <class T> T VT<T>::x; template <class T> const T *VT<T>::y; template struct VT<int>; template struct VT<S *>;
extern "C" int v22; int v22; namespace { int v23; struct An { void f(); int g(An *, An &) { return 0; } }; void An::f() {} void af(An, An *, const An &) {} void uses() { An a; a.f(); a.g(&a, a); af(a, &a, a); use(&v23, &af); } } void uses2() { uses(); }
namespace a::b { inline namespace c { int v24; struct D { struct F { enum G { g }; void h(G, F, D *); }; }; } void f(D::F::G, D, D::F *) {} } void a::b::c::D::F::h(G, F, D *) {}
// Operators
struct O { O(); O(int); operator int() const; operator const char *(); operator S &(); explicit operator bool() const; template <class T> operator T *(); typedef int (*FP)(char); operator FP(); typedef int S::*MP; operator MP();
  void *operator new(size_t); void operator delete(void *); void *operator new[](size_t); void operator delete[](void *);
  O &operator=(const O &); O &operator=(O &&); O operator+(const O &); O operator-(const O &); O operator*(int); O operator/(int); O operator%(int); O operator^(int); O operator&(int); O operator|(int); O operator~(); bool operator!(); bool operator<(const O &); bool operator>(const O &);
  O &operator+=(int); O &operator-=(int); O &operator*=(int); O &operator/=(int); O &operator%=(int); O &operator^=(int); O &operator&=(int); O &operator|=(int); O operator<<(int); O operator>>(int); O &operator<<=(int); O &operator>>=(int); bool operator==(const O &) const; bool operator!=(const O &) const; bool operator<=(const O &); bool operator>=(const O &);
  bool operator&&(int); bool operator||(int); O &operator++(); O operator++(int); O &operator--(); O operator--(int); void operator,(int); O *operator->(); O &operator*(); O &operator&(); void operator()(int, char); int operator[](int); int operator->*(int); std::suspend_never operator co_await(); std::strong_ordering operator<=>(const O &) const; O operator+(); O operator-();
  template <class T> O &operator<<(const T &); template <class T> bool operator<(T); template <class T> void operator()(T); template <class T> O(T *, int); };
O::O() {} O::O(int) {} O::operator int() const { return 0; } O::operator const char *() { return 0; } O::operator S &() { return *(S *)this; } O::operator bool() const { return 0; } template <class T> O::operator T *() { return 0; } template O::operator char *(); template O::operator S *(); O::operator FP() { return 0; } O::operator MP() { return 0; }
void *O::operator new(size_t) { return 0; } void O::operator delete(void *) {} void *O::operator new[](size_t) { return 0; } void O::operator delete[](void *) {}
#define B(r, op, a) r O::operator op a
B(O &, =, (const O &)) { return *this; } B(O &, =, (O &&)) { return *this; } B(O, +, (const O &)) { return 0; } B(O, -, (const O &)) { return 0; } B(O, *, (int)) { return 0; } B(O, /, (int)) { return 0; } B(O, %, (int)) { return 0; } B(O, ^, (int)) { return 0; } B(O, &, (int)) { return 0; } B(O, |, (int)) { return 0; } B(O, ~, ()) { return 0; } B(bool, !, ()) { return 0; } B(bool, <, (const O &)) { return 0; } B(bool, >, (const O &)) { return 0; }
B(O &, +=, (int)) { return *this; } B(O &, -=, (int)) { return *this; } B(O &, *=, (int)) { return *this; } B(O &, /=, (int)) { return *this; } B(O &, %=, (int)) { return *this; } B(O &, ^=, (int)) { return *this; } B(O &, &=, (int)) { return *this; } B(O &, |=, (int)) { return *this; } B(O, <<, (int)) { return 0; } B(O, >>, (int)) { return 0; } B(O &, <<=, (int)) { return *this; } B(O &, >>=, (int)) { return *this; }
B(bool, ==, (const O &) const) { return 0; } B(bool, !=, (const O &) const) { return 0; } B(bool, <=, (const O &)) { return 0; } B(bool, >=, (const O &)) { return 0; } B(bool, &&, (int)) { return 0; } B(bool, ||, (int)) { return 0; } B(O &, ++, ()) { return *this; } B(O, ++, (int)) { return 0; } B(O &, --, ()) { return *this; } B(O, --, (int)) { return 0; }
void O::operator,(int) {} B(O *, ->, ()) { return this; } B(O &, *, ()) { return *this; } B(O &, &, ()) { return *this; } B(void, (), (int, char)) {} B(int, [], (int)) { return 0; } B(int, ->*, (int)) { return 0; } B(std::suspend_never, co_await, ()) { return {}; } B(std::strong_ordering, <=>, (const O &) const) { return {}; } B(O, +, ()) { return 0; } B(O, -, ()) { return 0; }
template <class T> O &O::operator<<(const T &) { return *this; } template O &O::operator<<(const int &); template O &O::operator<<(const std::string &); template <class T> bool O::operator<(T) { return 0; } template bool O::operator<(S *); template <class T> void O::operator()(T) {} template void O::operator()(E); template <class T> O::O(T *, int) {} template O::O(char *, int);
unsigned long long operator""_k(unsigned long long n) { return n; } long double operator""_km(long double n) { return n; } const char *operator""_s(const char *p, size_t) { return p; } template <char... c> int operator""_t() { return sizeof...(c); } template int operator""_t<'1', '2'>();
// Templates
template <class T> void f1(T) {} template void f1(int); template void f1(const char *); template void f1(S &&); template void f1(std::vector<std::string>); template void f1(int (*)(char)); template void f1(void (S::*)(int)); template void f1(E); template void f1(U *);
template <class... T> void f2(T...) {} template void f2(); template void f2(int, char); template void f2(std::string, std::string, std::string *);
template <int N> void f3() {} template void f3<0>(); template void f3<1>(); template void f3<10>(); template void f3<-1>(); template void f3<1000000>(); template void f3<-1000000>();
template <auto N> void f4() {} template void f4<1>(); template void f4<'c'>(); template void f4<true>(); template void f4<e0>(); template void f4<EC::b>(); template void f4<&v1>(); template void f4<&S::m>(); template void f4<&S::f>(); template void f4<nullptr>(); template void f4<(long long)-5>(); template void f4<&S::st>();
template <int *P> void f5() {} template void f5<&v1>(); template void f5<nullptr>(); template <int &R> void f6() {} template void f6<v1>(); template <void (*F)(int)> void f7() {} template void f7<&S::st>(); template <int S::*M> void f8() {} template void f8<&S::m>(); template void f8<nullptr>(); template <void (S::*F)(int)> void f9() {} template void f9<&S::f>(); template void f9<nullptr>(); template <void (M1::*F)()> void f10() {} template void f10<&M1::mf>(); template void f10<nullptr>(); template <void (V1::*F)()> void f11() {} template void f11<&V1::vf>(); template void f11<nullptr>(); template <int V1::*M> void f12() {} template void f12<&V1::q>(); template void f12<nullptr>(); template <int M1::*M> void f13() {} template void f13<&M1::q>();
template <template <class> class T> void f14() {} template void f14<std::less>(); template <template <class...> class... T> void f15() {} template void f15<std::less, std::tuple>(); template void f15<>();
template <class T> void f16() {} template void f16<int[3]>(); template void f16<int[]>(); template void f16<const int>(); template void f16<const int *const>(); template void f16<int(char)>(); template void f16<void() const>(); template void f16<void() const &&>(); template void f16<int &>(); template void f16<const volatile S>(); template void f16<const int[2]>(); template void f16<void() noexcept>(); template void f16<std::function<void(int, std::string)>>(); template void f16<int (*const)(int)>(); template void f16<void (S::*const)()>(); template void f16<int (&)[3]>(); template void f16<S &&>(); template void f16<void>(); template void f16<An>(); template void f16<char (*(*)(int))[3]>(); template void f16<int S::*>();
template <class T, T... I> void f17(std::integer_sequence<T, I...>) {} template void f17(std::integer_sequence<int>); template void f17(std::integer_sequence<int, 0, 1, 2>); template void f17(std::integer_sequence<unsigned long long, 0, 18446744073709551615ull>); template void f17(std::integer_sequence<long long, -9223372036854775807 - 1>);
template <class... A> struct T1 { template <class... B> struct T2 { template <class... X> void f(X...); static int s; T2(); ~T2(); template <class Y> operator Y(); }; }; template <class... A> template <class... B> template <class... X> void T1<A...>::T2<B...>::f(X...) {} template <class... A> template <class... B> T1<A...>::T2<B...>::T2() {} template <class... A> template <class... B> T1<A...>::T2<B...>::~T2() {} template <class... A> template <class... B> int T1<A...>::T2<B...>::s; template <class... A> template <class... B> template <class Y> T1<A...>::T2<B...>::operator Y() { return {}; }
template struct T1<int>::T2<char, S>; template void T1<int>::T2<char, S>::f(int, S *); template struct T1<>::T2<>; template void T1<>::T2<>::f(); template T1<int>::T2<char, S>::operator int(); template T1<int>::T2<char, S>::operator S *();
template struct std::vector<int>; void f18(std::map<std::string, std::vector<std::pair<int, std::string>>, std::less<std::string>> &, std::string, std::wstring, std::string::iterator, const std::string &, std::vector<std::string>, std::map<int, int, std::less<int>> *) {}
void f19(std::function<std::vector<int>(std::string, std::string)>, std::function<std::vector<int>(std::string, std::string)>, std::tuple<int, int *, S, S *>, std::tuple<>) {}
void f20(S *, S *, C *, C *, const S &, const S &, U *, E, E, int *, int *, const char *, const char *, std::string, std::string, wchar_t **, wchar_t **, S &&, S &&, short ***, short ***) {}
void f21(int (*)(S *, C *), int (*)(S *, C *), S *, C *, void (*)(int (*)(S *, C *))) {}
struct NT { int a; const char *b; }; struct NT2 { NT x; int y[2]; int *p; }; template <NT n> void f22() {} template void f22<NT{1, nullptr}>(); template void f22<NT{-1, nullptr}>(); template <NT2 n> void f23() {} template void f23<NT2{{1, nullptr}, {2, 3}, &v1}>(); template <double d> void f24() {} template void f24<1.5>(); union NU { int a; char b; }; template <NU n> void f25() {} template void f25<NU{.b = 'x'}>(); template void f4<NT{3, nullptr}>(); template <E e> void f26() {} template void f26<e0>(); struct NE {}; template <NE n> void f27() {} template void f27<NE{}>(); template <NT *p> void f28() {} NT gnt; template void f28<&gnt>(); template void f5<&gnt.a>(); template void f5<&v4[1]>();
// Deduced types, lambdas, locals
auto g1() { return 1; } decltype(auto) g2() { return (v1); } auto *g3() { return &v1; } auto g4(int x) { return [x](int y) { return x + y; }; } auto g5 = [](auto x, S *) { return x; }; void g6() { g5(1, nullptr); g5("x", nullptr); auto l = [] { auto m = [](int) { return [](char) {}; }; return m(1); }; l()('c'); int (*fp)(int) = [](int a) { return a; }; use(fp, l); }
template <class F> void g7(F f) { f(1); use(f); } void g8() { g7([](auto x) { use(x); }); g7([=](int) { struct L { void q() {} }; L().q(); }); } auto g9(auto x, auto... y) { return x; } template auto g9(int, char, S *);
int g10() { static int a = p6(); static S s; { static int a = p6(); static const char b[] = "b"; use(a, b); } struct Loc { int f() { static int z = p6(); return z; } struct In { void g() {} }; enum Q { q }; static void h(Q) {} }; Loc l; Loc::In().g(); Loc::h(Loc::q); return a + l.f(); }
inline int g11() { static int a = p6(); static thread_local int b = p6(); static S s; struct X { virtual void f() {} ~X() {} }; static X x; use(x); return a + b; } int g12() { return g11(); } template <class T> T &g13() { static T t; return t; } template S &g13<S>(); template std::vector<int> &g13(); template <class T> inline T *g14 = new T; template int *g14<int>;
S gs; static C gc(1); int gi = p6(); std::vector<int> gv; struct GS { static S s; static inline C c{2}; template <class T> static T t; }; S GS::s; template <class T> T GS::t; template C GS::t<C>; namespace { S gas; namespace n { std::vector<S> gas2; } } static thread_local S gtl; void g15() { use(gtl, gas, n::gas2); }
extern "C" { void h1() { static int a = p6(); use(a); } int h2(int) { struct Q { void f() {} }; Q().f(); auto l = [] {}; l(); return 0; } void __stdcall h3(int); }
// Virtual tables, thunks, RTTI
struct I1 { virtual void a() = 0; virtual I1 *cl(); virtual ~I1(); }; struct I2 { virtual void b(int); virtual ~I2(); int x; }; struct D1 : I1, I2 { void a() override; D1 *cl() override; void b(int) override; ~D1() override; }; void D1::a() {} D1 *D1::cl() { return this; } void D1::b(int) {} D1::~D1() {} I1::~I1() {} I1 *I1::cl() { return this; } I2::~I2() {} void I2::b(int) {}
struct VB { virtual void a(); virtual ~VB(); int x; }; struct VD : virtual VB { void a() override; VD(); ~VD(); int y; }; struct VE : virtual VB { virtual void e(); VE(); int z; }; struct VF : VD, VE { void a() override; void e() override; VF(); ~VF(); virtual VF *q(); }; struct VG : VF, virtual I2 { void b(int) override; VG(); VG *q() override; ~VG(); private: void e() override; };
void VB::a() {} VB::~VB() {} void VD::a() {} VD::VD() {} VD::~VD() {} void VE::e() {} VE::VE() {} void VF::a() {} void VF::e() {} VF::VF() {} VF::~VF() {} VF *VF::q() { return this; } void VG::b(int) {} VG::VG() {} VG *VG::q() { return this; } VG::~VG() {} void VG::e() {}
struct PD : I1, protected I2 { protected: void a() override; void b(int) override; ~PD(); }; void PD::a() {} void PD::b(int) {} PD::~PD() {} struct PE2 : I1, private I2 { private: void a() override; void b(int) override; ~PE2(); }; void PE2::a() {} void PE2::b(int) {} PE2::~PE2() {}
template <class T> struct VT2 : virtual VB { VT2() {} virtual T f(T) { return {}; } void a() override {} ~VT2() {} }; template struct VT2<int>; template struct VT2<std::pair<int, S *>>; namespace { struct AnV : VT2<An *> { AnV() {} void a() override {} }; } void i1() { AnV v; v.a(); use(&v); } void i2(VB *p) { void (VB::*m)() = &VB::a; (p->*m)(); void (I2::*n)(int) = &I2::b; use(m, n); delete p; VE *a = new VE[3]; delete[] a; use(new S[4]); }
struct Ex { Ex(const Ex &, int = 0); Ex(); ~Ex(); }; struct Ex2 : virtual Ex { Ex2(); Ex2(const Ex2 &); }; void i3() { try { throw Ex(); } catch (const S &s) { use(s); } catch (Ex *) { throw 1; } catch (...) { throw Ex2(); } throw (const char *)0; } void i4() { throw std::string(); } void i5() { throw (S *)nullptr; }
struct DC { DC(int = 3, char = 'x'); ~DC(); }; struct __declspec(dllexport) DX { DX(int = 3); DX(const DX &) = default; DC c[2]; virtual ~DX() = default; static int s; void f() {} }; int DX::s; DC gdc[3]; __declspec(dllexport) void i6() {} template <class T> struct __declspec(dllexport) DT { DT() = default; T t; void f() {} }; template struct DT<DC>;
// Calling conventions, strings, qualified types, coroutines
void __vectorcall j1(float) {} void __fastcall j2(int) {} void __regcall j3(int) {} void __stdcall j4(int) {} void j5(void (__vectorcall *)(int), void (__vectorcall S::*)(int)) {} __attribute__((swiftcall)) void j6() {} void __cdecl j8() {} 
const char *k1() { return "a string"; } const char *k2() { return "a string that is longer than the 32 characters of a name, \"quoted\" \\ \n\t\x80\xff"; } const wchar_t *k3() { return L"wide \u00e4\u4f60"; } const char16_t *k4() { return u"sixteen \u00e4"; } const char32_t *k5() { return U"thirty-two"; } const char *k6() { return ""; } const wchar_t *k7() { return L"a wide string that is longer than thirty-two characters"; } const char16_t *k8() { return u"a string of sixteen bits that is longer than thirty-two"; } const char8_t *k9() { return u8"\u00e4\u00f6'"; } const char *k10() { return "\0a\0b"; } const char32_t *k11() { return U"a string of thirty-two bits that is longer"; }
typedef float v4f __attribute__((vector_size(16))); typedef int v4i __attribute__((ext_vector_type(4))); v4f l1(v4f *, v4i) { return {}; } _Complex double l2(_Complex float) { return 0; } template <class T> requires(sizeof(T) > 1) void l3(T) {} template void l3(int); template <class T> concept Big = sizeof(T) > 1; void l4(Big auto x) {} template void l4(long); struct alignas(16) Al { int x; }; void l5(Al) {} void l6(int (*)(int) noexcept, decltype(nullptr) *) {} typedef int Fn(char) const; void l7(Fn S::*) {} void l8(__attribute__((address_space(1))) int *) {}
struct Co { struct promise_type { Co get_return_object(); std::suspend_never initial_suspend() noexcept; std::suspend_never final_suspend() noexcept; void unhandled_exception(); void return_void(); std::suspend_never yield_value(int); }; }; Co n1(int x) { co_yield x; co_await O(); co_return; } struct CoS { Co f() const; template <class T> Co g(T); }; Co CoS::f() const { co_return; } template <class T> Co CoS::g(T) { co_return; } template Co CoS::g(std::string);
struct _GUID { int x[4]; }; struct __declspec(uuid("12345678-1234-1234-1234-1234567890ab")) Uu {}; template <const _GUID *g> void n2() {} template void n2<&__uuidof(Uu)>(); template <const _GUID &g> void n3() {} template void n3<__uuidof(Uu)>();
template <class A, class B2, class C2, class D2, class E2, class F2, class G2, class H2, class I, class J, class K> struct Many { void f(A *, B2 *, C2 *, D2 *, E2 *, F2 *, G2 *, H2 *, I *, J *, K *, A *, K *) {} }; struct A0; struct A1; struct A2; struct A3; struct A4; struct A5; struct A6; struct A7; struct A8; struct A9; struct A10; template struct Many<A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10>; namespace s0::s1::s2::s3::s4::s5::s6::s7::s8::s9::s10 { struct X {}; void f(X, X *, s0::s1::s2::s3::s4::s5::s6::s7::s8::s9::s10::X &) {} }
