// AMX: products of tiles of 16 rows of 64 bytes.
#include "codegen/intrinsics/intrinsic_rows.h"

namespace tilewright {
namespace {

// Configures all eight tiles at full size (Intel SDM volume 2, LDTILECFG). Byte 0 is the palette,
// words from 16 on the bytes per row, bytes from 48 on the rows. This is assembly, since no
// compiler keeps tiles in variables. A test on processors without tiles defines TW_TILES and puts
// its own definitions in front.
constexpr const char* kBegin = R"c(#ifndef TW_TILES
#define tw_tile_load(tile, p) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(p), "r"((int64_t)64) : "memory")
#define tw_tile_store(tile, p) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(p), "r"((int64_t)64) : "memory")
#define tw_tile_zero(tile) __asm__ volatile("tilezero %%tmm" #tile : : : "memory")
#define tw_tile_multiply(instruction, acc, a, b) \
  __asm__ volatile(#instruction " %%tmm" #b ", %%tmm" #a ", %%tmm" #acc : : : "memory")
static inline void tw_amx_begin(void) {
  uint8_t config[64] = {1};
  for (int tile = 0; tile < 8; ++tile) {
    config[16 + 2 * tile] = 64;
    config[48 + tile] = 16;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
}
static inline void tw_amx_end(void) { __asm__ volatile("tilerelease"); }
#endif
)c";

const KernelSection kSection{kBegin, "tw_amx_begin();", "tw_amx_end();"};

constexpr const char* kTileBf16 =
    R"(expr:expr="C[i,j] += A[i,k,p] * B[k,j,p]",dims.i=16,dims.j=16,dims.k=16,dims.p=2,)"
    R"(dtype=bf16,out=f32)";
constexpr const char* kTileMixed =
    R"(expr:expr="C[i,j] += A[i,k,p] * B[k,j,p]",dims.i=16,dims.j=16,dims.k=16,dims.p=4,)"
    R"(dtype=u8,dtypes.B=i8)";
constexpr const char* kTileSigned =
    R"(expr:expr="C[i,j] += A[i,k,p] * B[k,j,p]",dims.i=16,dims.j=16,dims.k=16,dims.p=4,dtype=i8)";

// The row of an instruction on tiles that the processor has with `feature`.
Intrinsic tile_row(std::string_view name, std::string_view computes, const std::string& feature,
                   std::string_view instruction) {
  std::string code = R"c(static inline {T} {name}({T} acc, const void* a, const void* b) {
  tw_tile_load(0, &acc);
  tw_tile_load(1, a);
  tw_tile_load(2, b);
  tw_tile_multiply()c";
  code += instruction;
  code += R"c(, 0, 1, 2);
  tw_tile_store(0, &acc);
  return acc;
}
)c";
  return {name, computes, {"amx-tile", feature}, code, 0, kSection, instruction};
}

}  // namespace

std::vector<Intrinsic> amx_rows() {
  return {
      tile_row("amx.tdpbf16ps", kTileBf16, "amx-bf16", "tdpbf16ps"),
      tile_row("amx.tdpbusd", kTileMixed, "amx-int8", "tdpbusd"),
      tile_row("amx.tdpbssd", kTileSigned, "amx-int8", "tdpbssd"),
  };
}

}  // namespace tilewright
