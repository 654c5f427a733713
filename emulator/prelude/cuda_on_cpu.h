// The text before a CUDA kernel that is compiled for the CPU: the names of kernel/prelude/cuda_prelude.h,
// each of which asks the emulator. The text of host_abi.h comes before it, the types of the prelude
// (cuda_types) at TW_EMU_TYPES, and the functions of the matrix rows behind it.
#pragma once

#define TW_FN inline __attribute__((always_inline))
#define TW_LINE int line = __builtin_LINE()
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
#define __noinline__

extern "C" {
extern __attribute__((visibility("default"))) tw_emu_state tw_emu;
tw_emu_state tw_emu;
}

#define threadIdx tw_emu.thread
#define blockIdx tw_emu.block
#define blockDim tw_emu.block_extent
#define gridDim tw_emu.grid_extent
#define warpSize 32

TW_FN unsigned tw_bits(float x) {
  unsigned r;
  __builtin_memcpy(&r, &x, 4);
  return r;
}
TW_FN float tw_float(unsigned bits) {
  float r;
  __builtin_memcpy(&r, &bits, 4);
  return r;
}
TW_FN unsigned short tw_f16_bits(float x) {
  _Float16 h = static_cast<_Float16>(x);
  unsigned short r;
  __builtin_memcpy(&r, &h, 2);
  return r;
}
TW_FN float tw_f16_value(unsigned short bits) {
  _Float16 h;
  __builtin_memcpy(&h, &bits, 2);
  return static_cast<float>(h);
}
TW_FN unsigned short tw_bf16_bits(float x) {
  unsigned u = tw_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<unsigned short>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
// The conversions of 8-bit floats that devices from sm_89 on have, in the words of the PTX ISA: the upper
// byte is the first operand's. TW_FP8_CVT is defined for such targets; kernels for others convert by bits.
TW_FN double tw_emu_fp8_value(unsigned code, int m, int bias) {
  const unsigned exponent = code >> m, fraction = code & ((1u << m) - 1);
  const unsigned digits = exponent == 0 ? fraction : fraction + (1u << m);
  const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - bias - m;
  return digits * static_cast<double>(tw_float(static_cast<unsigned>(127 + power) << 23));
}
// The nearest code, of two the even one; `top` is the greatest finite one's (.rn.satfinite).
TW_FN unsigned tw_emu_fp8_code(float x, int m, int bias, unsigned top) {
  if (x != x) return 0x7f;
  const double size = __builtin_fabs(static_cast<double>(x));
  unsigned below = 0, above = top;  // codes ascend as their values do
  while (above - below > 1) {
    const unsigned middle = (below + above) / 2;
    (tw_emu_fp8_value(middle, m, bias) <= size ? below : above) = middle;
  }
  const double less = size - tw_emu_fp8_value(below, m, bias);
  const double more = tw_emu_fp8_value(above, m, bias) - size;
  const bool is_above = more < less || (more == less && (above & 1) == 0);
  return (tw_bits(x) >> 24 & 0x80u) | (is_above ? above : below);
}
TW_FN unsigned short tw_cvt_e4m3x2(float upper, float lower) {
  return static_cast<unsigned short>(tw_emu_fp8_code(upper, 3, 7, 0x7e) << 8 |
                                     tw_emu_fp8_code(lower, 3, 7, 0x7e));
}
TW_FN unsigned short tw_cvt_e5m2x2(float upper, float lower) {
  return static_cast<unsigned short>(tw_emu_fp8_code(upper, 2, 15, 0x7b) << 8 |
                                     tw_emu_fp8_code(lower, 2, 15, 0x7b));
}
TW_FN unsigned tw_cvt_f16x2_e4m3x2(unsigned short pair) {
  unsigned r = 0;
  for (int i = 0; i < 2; ++i) {
    const unsigned code = pair >> 8 * i & 0xffu, size = code & 0x7fu;
    const float value =
        size == 0x7f ? tw_float(0x7fffffffu) : static_cast<float>(tw_emu_fp8_value(size, 3, 7));
    r |= (tw_f16_bits(value) | (code & 0x80u) << 8) << 16 * i;
  }
  return r;
}
// The bytes of a and b that the digits of the selector name.
TW_FN unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    r |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7) & 0xffu) << 8 * i;
  }
  return r;
}

TW_EMU_TYPES

template <class T>
TW_FN unsigned tw_emu_fma2(unsigned a, unsigned b, unsigned c) {
  unsigned r = 0;
  for (int i = 0; i < 32; i += 16) {
    T x[3];
    const unsigned words[3] = {a >> i, b >> i, c >> i};
    for (int k = 0; k < 3; ++k) x[k].bits = static_cast<unsigned short>(words[k]);
    // Exact in f64 but for the last rounding, as operands of a kernel have few bits.
    double sum = static_cast<double>(static_cast<float>(x[0])) * static_cast<float>(x[1]) +
                 static_cast<float>(x[2]);
    r |= static_cast<unsigned>(T(sum).bits) << i;
  }
  return r;
}
TW_FN unsigned tw_fma_f16x2(unsigned a, unsigned b, unsigned c) {
  return tw_emu_fma2<tw_f16>(a, b, c);
}
TW_FN unsigned tw_fma_bf16x2(unsigned a, unsigned b, unsigned c) {
  return tw_emu_fma2<tw_bf16>(a, b, c);
}
TW_FN unsigned tw_twice_f16(float x) { return tw_pack(tw_f16(x), tw_f16(x)); }
TW_FN unsigned tw_twice_bf16(float x) { return tw_pack(tw_bf16(x), tw_bf16(x)); }
TW_FN unsigned tw_and_xor(unsigned x, unsigned mask, unsigned other) { return (x & mask) ^ other; }
TW_EMU_CODES

// An index, and the line where it stands.
struct tw_index {
  long long value;
  int line;
  template <class I>
  TW_FN tw_index(I i, TW_LINE) : value(static_cast<long long>(i)), line(line) {}
};

template <class T>
struct tw_plain {
  typedef T type;
};
template <class T>
struct tw_plain<const T> {
  typedef T type;
};

template <class T>
TW_FN T tw_emu_load(tw_emu_array* array, long long offset, int line) {
  T value;
  tw_emu.host->load(array, offset, sizeof(T), &value, line);
  return value;
}

template <class T>
struct tw_ref;
template <class T>
struct tw_float_of {};  // a stored float reads as float, too

// An element that may be written.
template <class T>
struct tw_ref {
  tw_emu_array* array;
  long long offset;
  int line;

  TW_FN T get() const { return tw_emu_load<T>(array, offset, line); }
  TW_FN operator T() const { return get(); }
  template <class F, typename tw_if<__is_class(T) && __is_same(F, float)>::type = 0>
  TW_FN operator F() const {
    return static_cast<float>(get());
  }
  TW_FN T operator=(T value) const {
    tw_emu.host->store(array, offset, sizeof(T), &value, line);
    return value;
  }
  TW_FN T operator=(const tw_ref& other) const { return *this = other.get(); }
  template <class V>
  TW_FN T operator+=(V value) const {
    return *this = static_cast<T>(get() + value);
  }
  template <class V>
  TW_FN T operator-=(V value) const {
    return *this = static_cast<T>(get() - value);
  }
  template <class V>
  TW_FN T operator*=(V value) const {
    return *this = static_cast<T>(get() * value);
  }
};

// An element is the number that it holds.
template <class T>
struct tw_number<tw_ref<T>> : tw_number<T> {};

template <class T>
struct tw_element {
  typedef tw_ref<T> type;
  TW_FN static type at(tw_emu_array* array, long long offset, int line) {
    return {array, offset, line};
  }
};
template <class T>
struct tw_element<const T> {
  typedef T type;
  TW_FN static type at(tw_emu_array* array, long long offset, int line) {
    return tw_emu_load<T>(array, offset, line);
  }
};

// A pointer that knows its array; what it points to is checked when it is touched.
template <class T>
struct tw_ptr {
  typedef typename tw_plain<T>::type element;
  tw_emu_array* array;
  long long offset;  // in bytes

  TW_FN typename tw_element<T>::type operator[](tw_index i) const {
    return tw_element<T>::at(array, offset + i.value * static_cast<long long>(sizeof(T)), i.line);
  }
  TW_FN tw_ptr operator+(tw_index i) const {
    return {array, offset + i.value * static_cast<long long>(sizeof(T))};
  }
};

#define TW_IN(T) tw_ptr<const T>
#define TW_MADE(T) tw_ptr<const T>
#define TW_OUT(T) tw_ptr<T>
#define TW_INOUT(T) tw_ptr<T>
#define TW_SHARED(T, name, byte_offset, count)                                                   \
  const tw_ptr<T> name = {                                                                       \
      tw_emu.host->shared(#name, (byte_offset), (count), static_cast<int>(sizeof(T)), __LINE__), \
      0}

template <class T, class U>
struct tw_like {
  typedef U type;
};
template <class T, class U>
struct tw_like<const T, U> {
  typedef const U type;
};
template <class U, class T>
TW_FN tw_ptr<typename tw_like<T, U>::type> tw_as(tw_ptr<T> p) {
  return {p.array, p.offset};
}

template <int N, class T>
TW_FN tw_vec<typename tw_plain<T>::type, N> tw_ld(tw_ptr<T> p, TW_LINE) {
  static_assert(N * sizeof(T) <= 16, "a vector has at most 16 bytes");
  return tw_emu_load<tw_vec<typename tw_plain<T>::type, N>>(p.array, p.offset, line);
}
template <int N, class T>
TW_FN void tw_st(tw_ptr<T> p, tw_vec<T, N> v, TW_LINE) {
  static_assert(N * sizeof(T) <= 16, "a vector has at most 16 bytes");
  tw_emu.host->store(p.array, p.offset, sizeof(v), &v, line);
}

// Arrays in registers are plain ones, which nobody else sees.
TW_FN unsigned tw_word_at(const void* p) {
  unsigned word;
  __builtin_memcpy(&word, p, 4);
  return word;
}
TW_FN void tw_put_word(void* p, unsigned word) { __builtin_memcpy(p, &word, 4); }
template <int N, class T>
TW_FN void tw_st(T* p, tw_vec<T, N> v) {
  __builtin_memcpy(static_cast<void*>(p), &v, sizeof(v));
}

template <int BYTES, class T, class U>
TW_FN void tw_cp_async_zfill(tw_ptr<T> to, tw_ptr<U> from, int valid, TW_LINE) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
  tw_emu.host->copy_async(to.array, to.offset, from.array, from.offset, BYTES, valid, line);
}
template <int BYTES, class T, class U>
TW_FN void tw_cp_async(tw_ptr<T> to, tw_ptr<U> from, TW_LINE) {
  tw_cp_async_zfill<BYTES>(to, from, BYTES, line);
}
TW_FN void tw_cp_async_commit(TW_LINE) { tw_emu.host->copy_commit(line); }
template <int PENDING>
TW_FN void tw_cp_async_wait(TW_LINE) {
  tw_emu.host->copy_wait(PENDING, line);
}

TW_FN void __syncthreads(TW_LINE) { tw_emu.host->sync_block(line); }
TW_FN void __syncwarp(unsigned mask = 0xffffffffu, TW_LINE) { tw_emu.host->sync_warp(mask, line); }

template <class T>
TW_FN T tw_emu_shuffle(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = tw_emu.host->shuffle(mask, bits, source, line);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
// Lanes that would reach beyond their group of `width` keep their own value.
template <class T>
TW_FN T __shfl_sync(unsigned mask, T value, int source, int width = 32, TW_LINE) {
  int first = tw_emu.lane & ~(width - 1);
  return tw_emu_shuffle(mask, value, first | (source & (width - 1)), line);
}
template <class T>
TW_FN T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TW_LINE) {
  int source = tw_emu.lane ^ bits, end = (tw_emu.lane & ~(width - 1)) + width;
  return tw_emu_shuffle(mask, value, source < end ? source : tw_emu.lane, line);
}
template <class T>
TW_FN T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, TW_LINE) {
  int source = tw_emu.lane + static_cast<int>(delta);
  int end = (tw_emu.lane & ~(width - 1)) + width;
  return tw_emu_shuffle(mask, value, source < end ? source : tw_emu.lane, line);
}
template <class T>
TW_FN T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, TW_LINE) {
  int source = tw_emu.lane - static_cast<int>(delta);
  int first = tw_emu.lane & ~(width - 1);
  return tw_emu_shuffle(mask, value, source >= first ? source : tw_emu.lane, line);
}

TW_FN unsigned tw_lookup(unsigned mine, unsigned code, TW_LINE) {
  return __shfl_sync(0xffffffffu, mine, static_cast<int>(code), 16, line);
}
TW_EMU_TABLES

#define TW_EMU_LDMATRIX(name, count, transposed)                              \
  template <class T>                                                          \
  TW_FN void name(unsigned(&r)[count], tw_ptr<T> row, TW_LINE) {              \
    tw_emu.host->ldmatrix(row.array, row.offset, count, transposed, r, line); \
  }
TW_EMU_LDMATRIX(tw_ldmatrix_x1, 1, 0)
TW_EMU_LDMATRIX(tw_ldmatrix_x2, 2, 0)
TW_EMU_LDMATRIX(tw_ldmatrix_x4, 4, 0)
TW_EMU_LDMATRIX(tw_ldmatrix_x1_trans, 1, 1)
TW_EMU_LDMATRIX(tw_ldmatrix_x2_trans, 2, 1)
TW_EMU_LDMATRIX(tw_ldmatrix_x4_trans, 4, 1)

#define TW_EMU_STMATRIX(name, count, transposed)                              \
  template <class T>                                                          \
  TW_FN void name(tw_ptr<T> row, const unsigned(&r)[count], TW_LINE) {        \
    tw_emu.host->stmatrix(row.array, row.offset, count, transposed, r, line); \
  }
TW_EMU_STMATRIX(tw_stmatrix_x1, 1, 0)
TW_EMU_STMATRIX(tw_stmatrix_x2, 2, 0)
TW_EMU_STMATRIX(tw_stmatrix_x4, 4, 0)
TW_EMU_STMATRIX(tw_stmatrix_x1_trans, 1, 1)
TW_EMU_STMATRIX(tw_stmatrix_x2_trans, 2, 1)
TW_EMU_STMATRIX(tw_stmatrix_x4_trans, 4, 1)

template <class D, class A, class B>
TW_FN D tw_emu_dp4a(unsigned a, unsigned b, D c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<A>(a >> i) * static_cast<B>(b >> i);
  return c;
}
TW_FN int tw_dp4a(int a, int b, int c) {
  return tw_emu_dp4a<int, signed char, signed char>(static_cast<unsigned>(a),
                                                    static_cast<unsigned>(b), c);
}
TW_FN unsigned tw_dp4a(unsigned a, unsigned b, unsigned c) {
  return tw_emu_dp4a<unsigned, unsigned char, unsigned char>(a, b, c);
}
TW_FN int tw_dp4a(unsigned a, int b, int c) {
  return tw_emu_dp4a<int, unsigned char, signed char>(a, static_cast<unsigned>(b), c);
}

extern "C" {
float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float sqrtf(float) noexcept;
float fabsf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float rintf(float) noexcept;
float powf(float, float) noexcept;
float fmodf(float, float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float fmaf(float, float, float) noexcept;
}
TW_FN float rsqrtf(float x) { return 1.0f / sqrtf(x); }
TW_FN float __expf(float x) { return expf(x); }
TW_FN float tw_exp2(float x) { return x < -126.0f ? 0.0f : exp2f(x); }
TW_FN float tw_softened(float shift) { return fminf(1.0f, 1.0f / (fabsf(shift) * 0x1p-23f)); }
TW_FN float tw_either(bool condition, float a, float b) { return condition ? a : b; }
TW_FN float tw_quotient(float x, float y) {
  const float scale = fabsf(y) < 0x1p-64f ? 0x1p64f : 1.0f;
  return x * scale * (1.0f / (y * scale));
}
TW_FN float __logf(float x) { return logf(x); }
TW_FN float __fdividef(float a, float b) { return a / b; }
TW_FN unsigned __float_as_uint(float x) { return tw_bits(x); }
TW_FN int __float_as_int(float x) { return static_cast<int>(tw_bits(x)); }
TW_FN float __uint_as_float(unsigned bits) { return tw_float(bits); }
TW_FN float __int_as_float(int bits) { return tw_float(static_cast<unsigned>(bits)); }
TW_FN int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
TW_FN int min(int a, int b) { return a < b ? a : b; }
TW_FN int max(int a, int b) { return a > b ? a : b; }
TW_FN unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
TW_FN unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
TW_FN long long min(long long a, long long b) { return a < b ? a : b; }
TW_FN long long max(long long a, long long b) { return a > b ? a : b; }
TW_FN float min(float a, float b) { return fminf(a, b); }
TW_FN float max(float a, float b) { return fmaxf(a, b); }

// A parameter as the emulator's table says it, and its value of what the emulator passes.
template <class P>
struct tw_emu_of {
  static constexpr tw_emu_param param = {0, 0, sizeof(P)};
  TW_FN static P value(const tw_emu_argument& a) {
    return static_cast<P>(0.5) != 0 ? static_cast<P>(a.number) : static_cast<P>(a.integer);
  }
};
template <class T>
struct tw_emu_of<tw_ptr<T>> {
  static constexpr tw_emu_param param = {1, !__is_same(T, const typename tw_plain<T>::type),
                                         sizeof(T)};
  TW_FN static tw_ptr<T> value(const tw_emu_argument& a) { return {a.array, 0}; }
};

template <int... I>
struct tw_emu_numbers {};
template <int N, int... I>
struct tw_emu_count : tw_emu_count<N - 1, N - 1, I...> {};
template <int... I>
struct tw_emu_count<0, I...> {
  typedef tw_emu_numbers<I...> type;
};

template <auto F>
struct tw_emu_kernel;
template <class... P, void (*F)(P...)>
struct tw_emu_kernel<F> {
  static constexpr tw_emu_param params[sizeof...(P) + 1] = {tw_emu_of<P>::param..., {}};
  template <int... I>
  TW_FN static void unpack(const tw_emu_argument* a, tw_emu_numbers<I...>) {
    F(tw_emu_of<P>::value(a[I])...);
  }
  static void call(const tw_emu_argument* a) {
    unpack(a, typename tw_emu_count<sizeof...(P)>::type());
  }
  static constexpr int count = sizeof...(P);
};
#define TW_EMU_ENTRY(name)                                                                     \
  extern "C" {                                                                                 \
  extern __attribute__((visibility("default"))) const tw_emu_entry tw_emu_entry_##name;        \
  const tw_emu_entry tw_emu_entry_##name = {                                                   \
      tw_emu_kernel<&name>::count, tw_emu_kernel<&name>::params, &tw_emu_kernel<&name>::call}; \
  }
