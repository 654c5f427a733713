// Kernels that multiply AMX tiles, run on processors without AMX, too. In the generated C the tile
// operations are macros, which a header of this test defines anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "codegen/intrinsics/intrinsics.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "tests/codegen/support.h"
#include "tests/tuner/choices.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

// Intel SDM volume 2, TDPBF16PS and TDPBSSD: row m of the first tile and row k of the second. Their
// columns are groups of k elements in 32 bits. The instruction's name gives the types of bytes.
constexpr const char* kEmulation = R"(
typedef unsigned char tw_bytes __attribute__((vector_size(1024), aligned(1), may_alias));
typedef int tw_words __attribute__((aligned(1), may_alias));
typedef float tw_floats __attribute__((aligned(1), may_alias));
typedef unsigned short tw_halves __attribute__((aligned(1), may_alias));
#define TW_TILES
#define tw_tile_zero(tile) tw_tiles[tile] = (tw_bytes){0}
#define tw_tile_load(tile, p) tw_tiles[tile] = *(const tw_bytes*)(p)
#define tw_tile_store(tile, p) *(tw_bytes*)(p) = tw_tiles[tile]
#define tw_tile_multiply(instruction, acc, a, b) \
  tw_##instruction(&tw_tiles[acc], &tw_tiles[a], &tw_tiles[b])
static inline void tw_amx_begin(void) {}
static inline void tw_amx_end(void) {}
static inline float tw_half(unsigned short h) {
  union { unsigned bits; float value; } u = {(unsigned)h << 16};
  return u.value;
}
static inline void tw_tdpbf16ps(void* c, const void* a, const void* b) {
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 16; ++n)
        for (int p = 0; p < 2; ++p)
          ((tw_floats*)c)[m * 16 + n] += tw_half(((const tw_halves*)a)[m * 32 + k * 2 + p]) *
                                         tw_half(((const tw_halves*)b)[k * 32 + n * 2 + p]);
}
#define TW_BYTES(name, first, second)                                              \
  static inline void name(void* c, const void* a, const void* b) {                 \
    for (int m = 0; m < 16; ++m)                                                   \
      for (int k = 0; k < 16; ++k)                                                 \
        for (int n = 0; n < 16; ++n)                                               \
          for (int p = 0; p < 4; ++p)                                              \
            ((tw_words*)c)[m * 16 + n] += ((const first*)a)[m * 64 + k * 4 + p] *  \
                                          ((const second*)b)[k * 64 + n * 4 + p];  \
  }
TW_BYTES(tw_tdpbssd, signed char, signed char)
TW_BYTES(tw_tdpbusd, unsigned char, signed char)
)";

constexpr const char* kFeatures = "+amx-tile+amx-bf16+amx-int8";

// The machine's widest target, with tiles added.
Target with_tiles() { return Target::parse(Target::widest(cpu_features()).name + kFeatures); }

KernelSource emulated(KernelSource source) {
  std::erase_if(source.flags, [](const std::string& flag) { return flag.starts_with("-mamx"); });
  std::erase_if(source.description.features,
                [](const std::string& feature) { return feature.starts_with("amx"); });
  // Each function has registers of its own: a kernel keeps no tile from call to call.
  std::string code = kEmulation;
  std::istringstream lines(source.code);
  for (std::string line; std::getline(lines, line);) {
    code += line + "\n";
    const bool begins_function = !line.empty() && line[0] != ' ' && line.ends_with(") {");
    if (begins_function) code += "  tw_bytes tw_tiles[8]; (void)tw_tiles;\n";
  }
  source.code = code;
  return source;
}

// The first line that multiplies tiles in a thread without a tile configuration, or empty. A parallel
// loop ends the configuration, since its body may run in this thread.
std::string unconfigured_line(const std::string& code) {
  bool configured = false;
  std::istringstream lines(code.substr(code.find("TW_LOCAL_tw_main")));  // behind the helpers
  for (std::string line; std::getline(lines, line);) {
    const bool begins_function = !line.empty() && line[0] != ' ' && line[0] != '}';
    if (line.find("tw_amx_begin();") != std::string::npos) {
      configured = true;
    } else if (begins_function || line.find("tw_amx_end();") != std::string::npos ||
               line.find("->parallel_for(") != std::string::npos) {
      configured = false;
    } else if (const bool uses = line.find("= tw_amx_tdp") != std::string::npos ||
                                 line.find("  tw_tile_") == 0 ||
                                 line.find("   tw_tile_") != std::string::npos;
               uses && !configured) {
      return line;
    }
  }
  return "";
}

CheckResult check_emulated(const Workload& w, const Schedule& s, const Target& target) {
  return check_source(w, emulated(generate_c(s.module(), target)), 400);
}

// The choice of the knob whose name ends with `ending`.
// Each tile row is checked with three products into each of two results.
TEST(Tiles, AreMultipliedByTheEmulationAsTheirRowsSay) {
  for (const Intrinsic& row : intrinsics()) {
    if (!row.name.starts_with("amx.")) continue;
    SCOPED_TRACE(row.name);
    Schedule s = test::tensorized(row);
    NdArrays arrays = test::arrays_of(s.program(), false);
    interpret(s.program(), arrays);
    KernelSource source = emulated(generate_c(s.module(), with_tiles()));
    Kernel kernel(test_object(source), source.description);
    std::vector<HostArray> host;
    std::vector<void*> args;
    for (const Param& p : s.program().params) {
      host.emplace_back(p.buffer->name, p.buffer->elem, const_shape(p.buffer));
      if (p.role == ParamRole::Output) continue;
      const NdArray& a = arrays.at(p.buffer->name);
      for (size_t i = 0; i < a.data.size(); ++i)
        host.back().set(static_cast<int64_t>(i), a.data[i]);
    }
    for (HostArray& a : host) args.push_back(a.data());
    kernel.launch(args.data(), nullptr, serial_context());
    const bool exact = !is_float(host.back().elem());
    for (int64_t i = 0; i < host.back().count(); ++i) {
      double want = arrays.at("C").data[static_cast<size_t>(i)];
      ASSERT_NEAR(host.back().get(i), want, exact ? 0 : 1e-3) << "element " << i;
    }
  }
}

struct AmxCase {
  const char* spec;
  const char* row;
};

void PrintTo(const AmxCase& c, std::ostream* out) { *out << c.spec; }

class TileKernels : public testing::TestWithParam<AmxCase> {};

TEST_P(TileKernels, AreRightUnderTheEmulation) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = with_tiles();
  int checked = 0;
  for (uint64_t seed = 0; seed < 40 && checked < 3; ++seed) {
    Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, trial);
      const std::string chosen = choice_of(trial, ".tiles");
      if (seed == 0) {
        EXPECT_EQ(chosen, GetParam().row);
      }
      if (chosen != GetParam().row) continue;
      SCOPED_TRACE(trial.config());
      EXPECT_EQ(unconfigured_line(generate_c(s.module(), target).code), "");
      CheckResult result = check_emulated(w, s, target);
      EXPECT_EQ(result.verdict, Verdict::Ok) << result.message << "\n" << s.trace().str();
      ++checked;
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_EQ(checked, 3);
}

// A range of rows: the last tile is part of a tile at most sizes.
TEST(Tiles, TakeRowsThatALaunchTells) {
  const Workload w =
      make_workload(parse_spec("matmul:m=1..40,n=48,k=96,dtype=bf16,epilogue=[bias]"));
  Trial first = Trial::first();
  Schedule s = apply_sketch(cpu_sketches()[0], {w, with_tiles(), 2}, first);
  EXPECT_EQ(choice_of(first, ".tiles"), "amx.tdpbf16ps");
  const KernelSource source = emulated(generate_c(s.module(), with_tiles()));
  Kernel kernel(test_object(source), source.description);
  ThreadPool pool(2);
  for (int64_t m : {1, 8, 15, 16, 17, 31, 40}) {
    const std::map<std::string, int64_t> dims{{"m", m}};
    OperandSet operands(operands_of(w, dims), 1);
    BoundKernel bound(kernel, operands, {m}, pool);
    Oracle oracle(at_sizes(w, dims), seeded_readers(operands.infos(), 1));
    Reference reference = make_reference(operands.output().elem(), operands.output().shape(), 4000,
                                         1, [&](int64_t i) { return oracle.at(i); });
    const CheckResult result = check_kernel(bound, reference);
    EXPECT_EQ(result.verdict, Verdict::Ok) << result.message << " at m = " << m;
  }
}

// The tiles of results stay in registers while the reduction runs, also where there are more than registers.
// In the first config they start as zeros, and each operand's tile is loaded once for the products that
// share it.
TEST_P(TileKernels, KeepResultsInTileRegisters) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
    std::string code;
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], {w, with_tiles(), 2}, trial);
      code = generate_c(s.module(), with_tiles()).code;
    } catch (const ScheduleError&) {
      continue;
    }
    if (!choice_of(trial, ".tiles").starts_with("amx")) continue;
    SCOPED_TRACE(trial.config());
    EXPECT_EQ(code.find("= tw_amx_tdp"), std::string::npos) << code;
    if (seed == 0) {
      EXPECT_NE(code.find("tw_tile_zero(0);"), std::string::npos) << code;
    }
  }
}

TEST(Tiles, StartInRegistersWhereTheWholeReductionIsUnrolled) {
  const Workload w = make_workload(parse_spec("matmul:m=32,n=48,k=64,dtype=bf16,out=f32"));
  int unrolled = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Trial trial = Trial::random(seed);
    Schedule s = apply_sketch(cpu_sketches()[0], {w, with_tiles(), 2}, trial);
    if (choice_of(trial, ".tiles") == "none" || choice_of(trial, ".unroll") != "2") continue;
    SCOPED_TRACE(trial.config());
    const std::string code = generate_c(s.module(), with_tiles()).code;
    EXPECT_NE(code.find("tw_tile_zero(0);"), std::string::npos) << code;
    ++unrolled;
  }
  EXPECT_GT(unrolled, 0);
}

TEST_P(TileKernels, AreRightOnAProcessorWithTiles) {
  const Target native = Target::parse("native");
  const Workload w = make_workload(parse_spec(GetParam().spec));
  const std::string row = GetParam().row;
  for (const std::string& feature : find_intrinsic(row)->features) {
    if (cpu_features().count(feature) == 0) GTEST_SKIP() << "no " << feature;
  }
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], {w, native, 2}, trial);
      SCOPED_TRACE(trial.config());
      expect_right(w, s, native);
    } catch (const ScheduleError&) {
    }
  }
}

// The compiler makes code for features that the processor lacks.
TEST_P(TileKernels, CompileForTheirProcessor) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Trial first = Trial::first();
  Schedule s = apply_sketch(cpu_sketches()[0], {w, with_tiles(), 2}, first);
  KernelSource source = generate_c(s.module(), with_tiles());
  std::vector<std::string> features = source.description.features;
  EXPECT_EQ(std::count(features.begin(), features.end(), "amx-tile"), 1);
  EXPECT_FALSE(compile(source).object.empty());
}

// The programs themselves, without generated C, compute the product.
TEST_P(TileKernels, MeanTheProduct) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Trial first = Trial::first();
  Schedule s = apply_sketch(cpu_sketches()[0], {w, with_tiles(), 2}, first);
  NdArrays want = test::arrays_of(lower(w), false), got = want;
  interpret(lower(w), want);
  interpret(s.module(), got);
  const std::string& out = w.output()->name;
  const std::vector<double>&a = want.at(out).data, &b = got.at(out).data;
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << "element " << i;
}

INSTANTIATE_TEST_SUITE_P(
    Matmul, TileKernels,
    testing::Values(
        AmxCase{"matmul:m=32,n=48,k=64,dtype=bf16,out=f32", "amx.tdpbf16ps"},
        AmxCase{"matmul:m=20,n=40,k=70,dtype=bf16,out=f32", "amx.tdpbf16ps"},
        AmxCase{"matmul:m=32,n=32,k=96,trans_b=true,dtype=bf16,out=f32,epilogue=[bias,relu]",
                "amx.tdpbf16ps"},
        AmxCase{"matmul:m=100,n=90,k=130,dtype=bf16,epilogue=[bias,gelu]", "amx.tdpbf16ps"},
        AmxCase{"matmul:m=16,n=142,k=64,dtype=bf16,out=f32,epilogue=[bias]", "amx.tdpbf16ps"},
        AmxCase{"matmul:m=32,n=48,k=128,dtype=i8", "amx.tdpbssd"},
        AmxCase{"matmul:m=80,n=112,k=256,dtype=i8", "amx.tdpbssd"},
        AmxCase{"matmul:m=17,n=64,k=100,dtype=i8", "amx.tdpbssd"}));

// Windows are copied to rows of a matrix: with padding, strides and dilation, as the only reader's input and
// behind it, and with channels that fill no groups.
INSTANTIATE_TEST_SUITE_P(
    Convolution, TileKernels,
    testing::Values(
        AmxCase{"conv2d:n=1,h=7,w=6,ci=32,co=32,kernel=3,pad=1,dtype=bf16,out=f32",
                "amx.tdpbf16ps"},
        AmxCase{"conv2d:n=2,h=9,w=9,ci=40,co=24,kernel=3,stride=2,pad=1,dtype=bf16,out=f32,"
                "epilogue=[bias,relu]",
                "amx.tdpbf16ps"},
        AmxCase{"conv2d:n=1,h=8,w=8,ci=64,co=48,kernel=1,dtype=bf16,epilogue=[bias,relu]",
                "amx.tdpbf16ps"},
        AmxCase{"conv1d:n=1,l=40,ci=32,co=16,kernel=5,dilation=2,dtype=bf16,out=f32",
                "amx.tdpbf16ps"},
        AmxCase{"conv2d:n=1,h=6,w=6,ci=48,co=32,kernel=3,pad=1,dtype=i8", "amx.tdpbssd"},
        AmxCase{"conv2d:n=1,h=5,w=7,ci=64,co=16,kernel=1,dtype=i8", "amx.tdpbssd"}));

// Groups, layouts with rows innermost and few channels are left to other instructions.
TEST(Tiles, AreNotAskedForWhereTheyFitNoAxes) {
  for (const char* spec :
       {"conv2d:n=1,h=8,w=8,ci=64,co=64,kernel=3,pad=1,groups=2,dtype=bf16,out=f32",
        "conv2d:n=1,h=8,w=8,ci=64,co=64,kernel=3,pad=1,layout=nchw,dtype=bf16,out=f32",
        "conv2d:n=1,h=8,w=8,ci=3,co=64,kernel=3,pad=1,dtype=bf16,out=f32",
        "depthwise_conv2d:n=1,h=8,w=8,c=64,kernel=3,pad=1,dtype=bf16,out=f32"}) {
    SCOPED_TRACE(spec);
    Trial first = Trial::first();
    apply_sketch(cpu_sketches()[0], {make_workload(parse_spec(spec)), with_tiles(), 2}, first);
    EXPECT_EQ(choice_of(first, ".tiles"), "not asked");
  }
}

// The processor faults where tiles are used without a configuration; the emulation does not.
TEST(Tiles, AreUsedOnlyWhereTheyAreConfigured) {
  const Intrinsic& row = *find_intrinsic("amx.tdpbssd");
  Schedule s = test::tensorized(row);
  const std::string code = generate_c(s.module(), with_tiles()).code;
  EXPECT_EQ(unconfigured_line(code), "");
  std::string broken = code;
  const size_t begin = broken.rfind("  tw_amx_begin();");
  ASSERT_NE(begin, std::string::npos);
  broken.insert(begin + 18, "  context->parallel_for(context->pool, 2, body, &c);\n");
  EXPECT_NE(unconfigured_line(broken), "");
}

// With fewer rows than half a tile, most work would be padding.
TEST(Tiles, AreNotOfferedForFewRows) {
  Workload w = make_workload(parse_spec("matmul:m=7,n=48,k=64,dtype=bf16,out=f32"));
  Trial first = Trial::first();
  apply_sketch(cpu_sketches()[0], {w, with_tiles(), 2}, first);
  EXPECT_EQ(choice_of(first, ".tiles"), "not asked");
}

TEST(Targets, TakeFeaturesOfProcessors) {
  Target t = Target::parse("avx512+amx-tile+amx-bf16");
  EXPECT_EQ(t.name, "avx512+amx-tile+amx-bf16");
  EXPECT_EQ(t.extensions, (std::set<std::string>{"amx-tile", "amx-bf16"}));
  std::set<std::string> available = t.features;
  available.insert({"avx512cd", "amx-tile"});
  EXPECT_EQ(t.missing_features(available), std::vector<std::string>{"amx-bf16"});
  for (const char* name : {"avx512+", "avx512+amx-nothing", "cuda:sm_80+amx-tile"}) {
    try {
      Target::parse(name);
      ADD_FAILURE() << name << " was taken";
    } catch (const TargetError& e) {
      std::string feature = std::string(name).substr(std::string(name).find('+') + 1);
      EXPECT_NE(std::string(e.what()).find("takes no feature '" + feature + "'; those of "),
                std::string::npos)
          << e.what();
    }
  }
}

}  // namespace
}  // namespace tilewright
