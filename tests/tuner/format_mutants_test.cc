// Kernels of the sketch with an error in how they read a stored weight. For every format, the check
// that each candidate must pass tells each error from a correct kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

using Indices = std::vector<Expr>;
using Read = std::function<Expr(const Buffer&, const Indices&)>;

// Replaces the reads of selected buffers.
class FormatMutantsReadMutator : public Mutator {
 public:
  FormatMutantsReadMutator(std::function<bool(const Buffer&)> meant, Read read)
      : meant_(std::move(meant)), read_(std::move(read)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return meant_(n.buffer) ? read_(n.buffer, n.indices) : Mutator::mutate_load(n, e);
  }

 private:
  std::function<bool(const Buffer&)> meant_;
  Read read_;
};

// The module with other reads of an operand: in the programs that lay it out at load, or else in
// the main one. Nothing if no program reads it.
std::optional<Module> with_reads(const Workload& w, const Module& module,
                                 const std::string& operand, const Read& read) {
  auto found = std::find_if(w.inputs.begin(), w.inputs.end(),
                            [&](const Param& p) { return p.buffer->name == operand; });
  if (found == w.inputs.end()) return std::nullopt;
  Module result = module;
  bool changed = false;
  auto rewrite = [&](Program& program) {
    for (const Param& p : program.params) {
      bool ours = p.role != ParamRole::Output && p.buffer->name == operand &&
                  const_shape(p.buffer) == const_shape(found->buffer);
      if (!ours) continue;
      FormatMutantsReadMutator mutate([&](const Buffer& b) { return b == p.buffer; }, read);
      Stmt body = mutate(program.body);
      changed |= !body.same_as(program.body);
      program.body = body;
    }
  };
  for (Program& pack : result.packs) rewrite(pack);
  if (!changed) rewrite(result.main);
  return changed ? std::optional(result) : std::nullopt;
}

Expr next(const Expr& i, const Expr& extent) { return floormod(i + Expr(1), extent); }

// The neighbour in the last dimension; two such elements may share a byte.
Expr swapped(const Buffer& b, Indices at) {
  at.back() = at.back() + Expr(1) - floormod(at.back(), Expr(2)) * Expr(2);
  return load(b, at);
}

// The value of the next group; of the next column if there is one group.
Expr of_next_group(const Buffer& b, Indices at) {
  const size_t groups = at.size() - 2;
  const size_t d = as_int(b->shape[groups]) == 1 ? groups + 1 : groups;
  at[d] = next(at[d], b->shape[d]);
  return load(b, at);
}

// Replaces the sums that correct shifted elements by zero.
std::optional<Module> without_correction(const Workload&, const Module& module) {
  auto corrects = [](const Buffer& b) {
    return b->name.ends_with("_sum") || b->name.ends_with("_offset");
  };
  FormatMutantsReadMutator mutate(
      corrects, [](const Buffer& b, const Indices&) { return make_const(b->elem, 0); });
  Module result = module;
  result.main.body = mutate(module.main.body);
  return result.main.body.same_as(module.main.body) ? std::nullopt : std::optional(result);
}

// Ends the outermost serial loop of the contraction's reduction one iteration early.
class FormatMutantsTailDropper : public Mutator {
 public:
  bool done = false;

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto extent = as_int(n.extent);
    bool cut = !done && n.for_kind == ForKind::Serial && extent && *extent > 1 && reduces(n);
    if (!cut) return done ? s : Mutator::mutate_for(n, s);
    done = true;
    return make_for(n.var, n.min, *extent - 1, n.for_kind, n.body, n.annotations);
  }

 private:
  static bool reduces(const ForNode& n) {
    bool found = false;
    for_each_stmt(n.body, [&](const Stmt& s) {
      auto* block = s.as<BlockNode>();
      if (!block || !block->name.starts_with("C") || block->name.ends_with("_sum")) return;
      for (const IterVar& iter : block->iters) {
        found |= iter.kind == IterKind::Reduce && uses_var(iter.binding, n.var);
      }
    });
    return found;
  }
};

std::optional<Module> without_tail(const Workload&, const Module& module) {
  FormatMutantsTailDropper drop;
  Module result = module;
  result.main.body = drop(module.main.body);
  return drop.done ? std::optional(result) : std::nullopt;
}

// Stores a function of each value into one buffer.
class StoreMutator : public Mutator {
 public:
  StoreMutator(Buffer buffer, std::function<Expr(const Expr&)> value)
      : buffer_(std::move(buffer)), value_(std::move(value)) {}

 protected:
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    return n.buffer == buffer_ ? make_store(n.buffer, n.indices, value_(n.value), n.predicate) : s;
  }

 private:
  Buffer buffer_;
  std::function<Expr(const Expr&)> value_;
};

// Moves the metadata of an N:M pattern's kept elements one row on.
std::optional<Module> with_wrong_places(const Workload& w, const Module& module) {
  if (!w.weight || !w.weight->sparse()) return std::nullopt;
  Module result = module;
  for (Program& pack : result.packs) {
    const Buffer& to = pack.params.back().buffer;
    if (to->name.find("_rows") == std::string::npos) continue;
    const ElemType i32 = ElemType::i32;
    StoreMutator mutate(to, [&](const Expr& value) {
      return cast(to->elem,
                  floormod(cast(i32, value) + make_int(i32, 1), make_int(i32, w.weight->of)));
    });
    Stmt body = mutate(pack.body);
    if (body.same_as(pack.body)) continue;
    pack.body = body;
    return result;
  }
  return std::nullopt;
}

Verdict verdict_of(const Workload& w, const Module& module, const Target& target) {
  KernelSource source = generate_c(module, target);
  Kernel kernel(test_object(source), source.description);
  OperandSet operands(operands_of(w, {}), 1);
  ThreadPool pool(1);
  BoundKernel bound(kernel, operands, {}, pool);
  Oracle oracle(w, seeded_readers(operands.infos(), 1));
  Reference reference = make_reference(operands.output().elem(), operands.output().shape(), 200, 1,
                                       [&](int64_t i) { return oracle.at(i); });
  return check_kernel(bound, reference).verdict;
}

struct FormatMutantsMutant {
  std::string name;
  std::function<std::optional<Module>(const Workload&, const Module&)> make;
};

FormatMutantsMutant reading(const std::string& name, const std::string& operand, const Read& read) {
  return {name,
          [=](const Workload& w, const Module& m) { return with_reads(w, m, operand, read); }};
}

std::vector<FormatMutantsMutant> mutants_format_mutants() {
  return {
      reading("swapped nibbles", "B", swapped),
      reading(
          "zero point off by one", "B.zero",
          [](const Buffer& b, const Indices& at) { return load(b, at) + make_const(b->elem, 1); }),
      reading("no zero point", "B.zero",
              [](const Buffer& b, const Indices&) { return make_const(b->elem, 0); }),
      reading("scale of another group", "B.scale", of_next_group),
      reading("offset of another group", "B.offset", of_next_group),
      reading("no offset", "B.offset",
              [](const Buffer& b, const Indices&) { return make_const(b->elem, 0); }),
      {"no correction term", without_correction},
      {"dropped tail", without_tail},
      {"places of other rows", with_wrong_places},
  };
}

struct FormatMutantsCase {
  const char* spec;
  std::vector<const char*> faults;  // applicable ones, besides swapped elements and a dropped tail
};

void PrintTo(const FormatMutantsCase& c, std::ostream* out) { *out << c.spec; }

class FormatMutants : public testing::TestWithParam<FormatMutantsCase> {
 protected:
  // Checks every mutant of the schedule. Returns the names of those that exist.
  std::vector<std::string> reject(const Workload& w, const Schedule& s, const Target& target) {
    std::vector<std::string> names;
    EXPECT_EQ(verdict_of(w, s.module(), target), Verdict::Ok);
    for (const FormatMutantsMutant& m : mutants_format_mutants()) {
      std::optional<Module> wrong = m.make(w, s.module());
      if (!wrong) continue;
      names.push_back(m.name);
      EXPECT_EQ(verdict_of(w, *wrong, target), Verdict::Wrong) << m.name;
    }
    return names;
  }
};

constexpr const char* kPlaces = "places of other rows";

TEST_P(FormatMutants, OfTheFirstScheduleAreRejected) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = Target::parse("native");
  Trial first = Trial::first();
  Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
  SCOPED_TRACE(first.config());
  std::vector<std::string> found = reject(w, s, target);
  std::vector<std::string> wanted = {"swapped nibbles", "dropped tail"};
  const bool looks_up = has_row(target, "avx512.vdpbf16ps_each");
  for (const std::string fault : GetParam().faults) {
    if (fault != kPlaces || looks_up) wanted.push_back(fault);
  }
  for (const std::string& name : wanted) {
    EXPECT_EQ(std::count(found.begin(), found.end(), name), 1) << "no mutant with " << name;
  }
}

TEST_P(FormatMutants, OfARandomScheduleAreRejected) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = Target::parse("native");
  for (uint64_t seed = 1; seed < 40; ++seed) {
    Trial trial = Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, trial);
      SCOPED_TRACE(trial.config());
      reject(w, s, target);
      return;
    } catch (const ScheduleError&) {
    }
  }
  FAIL() << "no legal schedule";
}

constexpr const char* kScale = "scale of another group";
constexpr const char* kZero = "zero point off by one";
constexpr const char* kNoZero = "no zero point";
constexpr const char* kOffset = "offset of another group";
constexpr const char* kNoOffset = "no offset";

INSTANTIATE_TEST_SUITE_P(
    Bf16, FormatMutants,
    testing::Values(
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=u4,w.group=32,w.zero=u4,w.scale=f16",
            {kScale, kZero, kNoZero}},
        FormatMutantsCase{
            "matmul:m=1,n=48,k=128,dtype=bf16,out=f32,w.dtype=u4,w.group=64,w.zero=f16,"
            "trans_b=true",
            {kScale, kZero, kNoZero}},
        FormatMutantsCase{"matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=u4,w.group=32,"
                          "w.scale=f16,w.offset=f16",
                          {kScale, kOffset, kNoOffset}},
        FormatMutantsCase{"matmul:m=1,n=48,k=60,dtype=bf16,out=f32,w.dtype=i4,w.group=20",
                          {kScale}},
        FormatMutantsCase{"matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=i2", {kScale}},
        FormatMutantsCase{"matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=i1,w.group=64",
                          {kScale}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=nf4,w.group=64,w.scale=bf16",
            {kScale}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
            {kScale}},
        FormatMutantsCase{
            "matmul:m=1,n=48,k=128,dtype=bf16,out=f32,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
            {kScale}},
        FormatMutantsCase{"matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=f8e4m3,w.group=64",
                          {kScale}},
        FormatMutantsCase{"matmul:m=1,n=48,k=128,dtype=bf16,out=f32,w.dtype=f8e5m2", {kScale}},
        FormatMutantsCase{"matmul:m=5,n=48,k=128,dtype=bf16,out=f32,w.dtype=i8,w.group=32",
                          {kScale}},
        FormatMutantsCase{
            "matmul:m=1,n=48,k=128,dtype=bf16,out=f32,w.dtype=u8,w.group=32,w.zero=u8",
            {kScale, kZero, kNoZero}}));

INSTANTIATE_TEST_SUITE_P(
    Bytes, FormatMutants,
    testing::Values(
        FormatMutantsCase{"matmul:m=3,n=48,k=128,dtype=i8,w.dtype=i4", {}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=i8,out=f32,w.dtype=i4,w.group=32,w.scale=f16", {kScale}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=u8,out=f32,w.dtype=u2,w.group=64,w.zero=u2,w.scale=f32",
            {kScale, kZero, kNoZero}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=bf16,a.dtype=i8,w.dtype=u4,w.group=32,w.zero=u4",
            {kScale, kZero, kNoZero}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=bf16,a.dtype=i8,w.dtype=u4,w.group=32,w.offset=f32",
            {kScale, kOffset, kNoOffset}}));

// Signed weights beside signed activations are shifted for the byte dot products; the sums of a
// correction subtract the shift.
TEST(CorrectionTerms, CannotBeLeftOut) {
  Target target = Target::parse("avx512");
  if (!target.missing_features().empty()) GTEST_SKIP() << "this machine does not run it";
  target.extensions = {"avx512vnni"};
  for (const char* spec :
       {"matmul:m=3,n=48,k=128,dtype=i8", "matmul:m=3,n=48,k=128,dtype=i8,w.dtype=i4",
        "matmul:m=3,n=48,k=128,dtype=u8,out=f32,w.dtype=u4,w.group=64,w.zero=u4"}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    Trial first = Trial::first();
    Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
    std::optional<Module> wrong = without_correction(w, s.module());
    ASSERT_TRUE(wrong.has_value()) << s.trace().str();
    EXPECT_EQ(verdict_of(w, *wrong, target), Verdict::Wrong);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sparse, FormatMutants,
    testing::Values(
        FormatMutantsCase{"matmul:m=1,n=48,k=128,w.sparse=2:4", {kPlaces}},
        FormatMutantsCase{"matmul:m=5,n=48,k=128,w.sparse=1:4,w.vector=16", {kPlaces}},
        FormatMutantsCase{
            "matmul:m=1,n=48,k=128,dtype=bf16,out=f32,w.dtype=i4,w.group=32,w.sparse=2:4",
            {kScale, kPlaces}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=u4,w.group=64,w.zero=u4,"
            "w.sparse=4:8,w.vector=16",
            {kScale, kZero, kNoZero, kPlaces}},
        FormatMutantsCase{
            "matmul:m=3,n=48,k=128,dtype=i8,out=f32,w.dtype=i4,w.group=32,w.scale=f32,w.sparse=2:4",
            {kScale}}));

}  // namespace
}  // namespace tilewright
