// CuTe's layouts of matrix operands in shared memory, the matrix descriptors that it makes of them,
// and the swizzles of TMA tiles.
#include <cute/atom/mma_traits_sm90_gmma.hpp>

#include "cute_print.h"

using namespace cute;
using Major = SM90::GMMA::Major;

// The swizzle, the layout before it, and "hash NAME HASH" over all offsets behind it.
template <int bits, int base, int shift, class Swizzled, class Layout>
void print_parts(const std::string& name, Swizzle<bits, base, shift> swizzle, const Layout& plain,
                 const Swizzled& layout) {
  tables::print_swizzle(name, swizzle);
  tables::print_layout(name, plain);
  tables::Hash hash;
  for (int i = 0; i < int(size(layout)); ++i) hash.add(int64_t(layout(i)));
  std::printf("hash %s %016llx\n", name.c_str(), static_cast<unsigned long long>(hash.value()));
}

template <int bits, int base, int shift, class Offset, class Layout>
void print_composed(const std::string& name,
                    const ComposedLayout<Swizzle<bits, base, shift>, Offset, Layout>& layout) {
  print_parts(name, Swizzle<bits, base, shift>{}, layout.layout_b(), layout);
}
// CuTe simplifies a swizzle of no bits away.
template <class Shape, class Stride>
void print_composed(const std::string& name, const Layout<Shape, Stride>& layout) {
  print_parts(name, Swizzle<0, 4, 3>{}, layout, layout);
}

// "atom NAME ELEMENT_BITS SPAN_BYTES MAJOR X K", then its swizzle and layout in elements.
template <class T, class Atom, int X, int K>
void print_atom(const std::string& name, int span, Major major) {
  std::printf("atom %s %d %d %s %d %d\n", name.c_str(), int(sizeof_bits_v<T>), span,
              major == Major::K ? "k" : "mn", X, K);
  print_composed(
      name, as_position_independent_swizzle_layout(tile_to_shape(Atom{}, Shape<Int<X>, Int<K>>{})));
}

// "descriptor NAME ELEMENT_BITS SPAN_BYTES MAJOR ROWS", the tile's layout in elements without its
// swizzle, and for each instruction "step X K TYPE LEADING STRIDE START": its first row and index k,
// the descriptor's fields, and the bytes from the tile's first.
template <Major major, class T, class Atom, int Rows, int X, int K>
void print_descriptors(const std::string& name, int span) {
  constexpr int bits = sizeof_bits_v<T>, terms = 256 / bits;
  auto layout = tile_to_shape(Atom{}, Shape<Int<X>, Int<K>>{});
  alignas(1024) static char memory[X * K * sizeof(T)];
  auto whole = make_tensor(make_smem_ptr(reinterpret_cast<T*>(memory)), layout);
  auto parts = zipped_divide(whole, Shape<Int<Rows>, Int<terms>>{});
  std::printf("descriptor %s %d %d %s %d\n", name.c_str(), bits, span,
              major == Major::K ? "k" : "mn", Rows);
  tables::print_layout(name, layout.layout_b());
  for (int i = 0; i < X / Rows; ++i) {
    for (int j = 0; j < K / terms; ++j) {
      auto part = parts(make_coord(_, _), make_coord(i, j));
      auto fields = SM90::GMMA::make_gmma_desc<major>(part).bitfield;
      const auto start = reinterpret_cast<char*>(raw_pointer_cast(part.data())) - memory;
      std::printf("step %d %d %d %d %d %d\n", i * Rows, j * terms, int(fields.layout_type_),
                  int(fields.leading_byte_offset_), int(fields.stride_byte_offset_), int(start));
    }
  }
}

template <class T>
void print_k_atoms(const std::string& type) {
  using namespace SM90::GMMA;
  constexpr int bits = sizeof_bits_v<T>;
  print_atom<T, Layout_K_SW128_Atom<T>, 64, 2048 / bits>("K_SW128_" + type, 128, Major::K);
  print_atom<T, Layout_K_SW64_Atom<T>, 64, 2048 / bits>("K_SW64_" + type, 64, Major::K);
  print_atom<T, Layout_K_SW32_Atom<T>, 64, 2048 / bits>("K_SW32_" + type, 32, Major::K);
  print_atom<T, Layout_K_INTER_Atom<T>, 64, 2048 / bits>("K_INTER_" + type, 16, Major::K);
  print_descriptors<Major::K, T, Layout_K_SW128_Atom<T>, 64, 128, 2048 / bits>(
      "K_SW128_" + type + "_64", 128);
  print_descriptors<Major::K, T, Layout_K_SW128_Atom<T>, 256, 256, 2048 / bits>(
      "K_SW128_" + type + "_256", 128);
  print_descriptors<Major::K, T, Layout_K_SW128_Atom<T>, 8, 64, 2048 / bits>(
      "K_SW128_" + type + "_8", 128);
  print_descriptors<Major::K, T, Layout_K_SW64_Atom<T>, 64, 128, 1024 / bits>(
      "K_SW64_" + type + "_64", 64);
  print_descriptors<Major::K, T, Layout_K_SW32_Atom<T>, 64, 128, 1024 / bits>(
      "K_SW32_" + type + "_64", 32);
  print_descriptors<Major::K, T, Layout_K_INTER_Atom<T>, 64, 128, 1024 / bits>(
      "K_INTER_" + type + "_64", 16);
}

template <class T>
void print_mn_atoms(const std::string& type) {
  using namespace SM90::GMMA;
  print_atom<T, Layout_MN_SW128_Atom<T>, 128, 64>("MN_SW128_" + type, 128, Major::MN);
  print_atom<T, Layout_MN_SW64_Atom<T>, 128, 64>("MN_SW64_" + type, 64, Major::MN);
  print_atom<T, Layout_MN_SW32_Atom<T>, 128, 64>("MN_SW32_" + type, 32, Major::MN);
  print_atom<T, Layout_MN_INTER_Atom<T>, 128, 64>("MN_INTER_" + type, 16, Major::MN);
  print_descriptors<Major::MN, T, Layout_MN_SW128_Atom<T>, 64, 128, 64>("MN_SW128_" + type + "_64",
                                                                        128);
  print_descriptors<Major::MN, T, Layout_MN_SW128_Atom<T>, 128, 128, 64>(
      "MN_SW128_" + type + "_128", 128);
  print_descriptors<Major::MN, T, Layout_MN_SW128_Atom<T>, 256, 256, 64>(
      "MN_SW128_" + type + "_256", 128);
  print_descriptors<Major::MN, T, Layout_MN_SW64_Atom<T>, 128, 128, 64>("MN_SW64_" + type + "_128",
                                                                        64);
  print_descriptors<Major::MN, T, Layout_MN_SW32_Atom<T>, 128, 128, 64>("MN_SW32_" + type + "_128",
                                                                        32);
  print_descriptors<Major::MN, T, Layout_MN_INTER_Atom<T>, 128, 128, 64>(
      "MN_INTER_" + type + "_128", 16);
}

int main() {
  print_k_atoms<half_t>("f16");
  print_k_atoms<float_e4m3_t>("e4m3");
  print_k_atoms<tfloat32_t>("tf32");
  print_mn_atoms<half_t>("f16");
  // Swizzles over byte addresses, as TMA and wgmma share them.
  tables::print_swizzle("tma.128", Swizzle<3, 4, 3>{});
  tables::print_swizzle("tma.64", Swizzle<2, 4, 3>{});
  tables::print_swizzle("tma.32", Swizzle<1, 4, 3>{});
}
