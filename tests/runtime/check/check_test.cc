#include "runtime/check/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "runtime/compile/compile.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using testing::HasSubstr;

constexpr int64_t kCheckCount = 1000;

std::vector<OperandInfo> unary_operands(int64_t n = kCheckCount, ElemType out = ElemType::f32) {
  return {{"A", ElemType::f32, {n}, ParamRole::Input, {}}, {"C", out, {n}, ParamRole::Output, {}}};
}

// C[i] = A[i] + 1, checked at every element.
CheckResult check_body(const std::string& body) {
  KernelSource source = test::unary_kernel(body, kCheckCount);
  Kernel kernel(compile(source).object, source.description);
  // Guards on both sides of 4000 bytes, so that small faults do not end the test.
  OperandSet operands(unary_operands(), 5, ValueKind::Ordinary, HostArray::Place::BeforeFence);
  ThreadPool pool(1);
  BoundKernel bound(kernel, operands, {}, pool);
  SeededValues a(5, "A", ElemType::f32);
  Reference reference = make_reference(ElemType::f32, {kCheckCount}, 96, 5, [&](int64_t i) {
    return Oracle::Value{a.at(i) + 1, 2, 2, 2e-7};
  });
  CheckResult result = check_kernel(bound, reference);
  EXPECT_FALSE(operands.changed_input()) << "everything is in order afterwards";
  EXPECT_FALSE(operands.guard_fault());
  return result;
}

TEST(Check, RightKernelIsOk) {
  CheckResult result = check_body("for (int64_t i = 0; i < n; ++i) c[i] = a[i] + 1;");
  EXPECT_EQ(result.verdict, Verdict::Ok) << result.message;
  EXPECT_EQ(result.message, "");
  EXPECT_GE(result.compared, 90);
  EXPECT_LT(result.max_rel_error, 1e-6);
}

TEST(Check, WrongValueIsNamed) {
  CheckResult result =
      check_body("for (int64_t i = 0; i < n; ++i) c[i] = a[i] + 1 + (i == n - 1);");
  EXPECT_EQ(result.verdict, Verdict::Wrong);
  EXPECT_EQ(result.index, kCheckCount - 1);
  EXPECT_THAT(result.message, HasSubstr("C[999] is "));
  EXPECT_NEAR(result.got, result.want + 1, 1e-6);
}

#if defined(__x86_64__)
// Stores past the last local array end in what the caller keeps: a register that the kernel saved, or
// the caller's frame. The result is right all the same.
TEST(Check, AStorePastTheFrameIsOutOfBounds) {
  const std::string right = "for (int64_t i = 0; i < n; ++i) c[i] = a[i] + 1;";
  for (const char* wrong : {"__asm__ volatile(\"xor %rbx, %rbx\");",
                            "((volatile char*)__builtin_frame_address(0))[16 + 500] = 1;"}) {
    CheckResult result = check_body(right + wrong);
    EXPECT_EQ(result.verdict, Verdict::OutOfBounds) << wrong;
    EXPECT_THAT(result.message, HasSubstr("past the end of a local array"));
  }
  const std::string local = "volatile float local[16]; for (int i = 0; i < 16; ++i) local[i] = 0;";
  EXPECT_EQ(check_body(right + local).verdict, Verdict::Ok);
}
#endif

// One element in the middle, which no sample may happen to hold.
TEST(Check, EveryUnwrittenElementIsFound) {
  for (int hole : {0, 123, 517, 998}) {
    CheckResult result = check_body(
        "for (int64_t i = 0; i < n; ++i) if (i != " + std::to_string(hole) + ") c[i] = a[i] + 1;");
    EXPECT_EQ(result.verdict, Verdict::Wrong);
    EXPECT_EQ(result.message, "C[" + std::to_string(hole) + "] was not written");
  }
}

TEST(Check, WritePastTheEndIsOutOfBounds) {
  CheckResult result =
      check_body("for (int64_t i = 0; i <= n; ++i) c[i] = (i < n ? a[i] : 0) + 1;");
  EXPECT_EQ(result.verdict, Verdict::OutOfBounds);
  EXPECT_EQ(result.message, "write 0 bytes past the end of 'C' (4000 bytes)");
}

TEST(Check, WriteBeforeTheStartOfAnInputIsOutOfBounds) {
  CheckResult result = check_body("for (int64_t i = 0; i < n; ++i) c[i] = a[i] + 1; a[-2] = 0;");
  EXPECT_EQ(result.verdict, Verdict::OutOfBounds);
  EXPECT_THAT(result.message, HasSubstr("before the start of 'A'"));
}

TEST(Check, ChangedInputIsWrong) {
  CheckResult result = check_body("for (int64_t i = 0; i < n; ++i) c[i] = a[i] + 1; a[500] += 1;");
  EXPECT_EQ(result.verdict, Verdict::Wrong);
  EXPECT_EQ(result.message, "the kernel changed its input 'A'");
}

// A read past an input's end gives NaN, and shows.
TEST(Check, ReadPastTheEndShows) {
  CheckResult result = check_body("for (int64_t i = 0; i < n; ++i) c[i] = a[i] + 1 + a[n] * 0;");
  EXPECT_EQ(result.verdict, Verdict::Wrong);
}

// The body of a parallel loop over all elements; `begin`, `end` and `worker` are its own.
CheckResult check_part(const std::string& part) {
  KernelSource source = test::unary_kernel(
      "float* both[] = {a, c}; context->parallel_for(context->pool, n, part, both);", kCheckCount);
  source.code.insert(source.code.find("int32_t kernel("),
                     "static void part(void* closure, int64_t begin, int64_t end, int32_t worker) "
                     "{\n  float *a = ((float**)closure)[0], *c = ((float**)closure)[1];\n" +
                         part + "\n}\n");
  Kernel kernel(compile(source).object, source.description);
  OperandSet operands(unary_operands(), 5);
  ThreadPool pool(1);
  BoundKernel bound(kernel, operands, {}, pool);
  SeededValues a(5, "A", ElemType::f32);
  Reference reference = make_reference(ElemType::f32, {kCheckCount}, 96, 5, [&](int64_t i) {
    return Oracle::Value{a.at(i) + 1, 2, 2, 2e-7};
  });
  return check_kernel(bound, reference);
}

TEST(Check, AnyShareOfAParallelLoopIsRight) {
  EXPECT_EQ(check_part("for (int64_t i = begin; i < end; ++i) c[i] = a[i] + 1;").message, "");
  for (const char* wrong :
       {"if (worker == 0 && end < 1000) return; for (int64_t i = begin; i < end; ++i) c[i] = a[i] "
        "+ 1;",
        "for (int64_t i = 0; i < end; ++i) c[i] = a[i] + 1 + (end == 1);",
        "if (begin > 0) return; for (int64_t i = 0; i < end; ++i) c[i] = a[i] + 1;",
        // Wrong only where a share of several iterations ends before the last ones.
        "for (int64_t i = begin; i < end; ++i) c[i] = a[i] + 1; if (end - begin > 1 && end < 1000) "
        "c[end - 1] = 0;"}) {
    CheckResult result = check_part(wrong);
    EXPECT_EQ(result.verdict, Verdict::Wrong) << wrong;
    EXPECT_THAT(result.message, ::testing::AnyOf(HasSubstr("shared out among threads"),
                                                 HasSubstr("store to the same bytes of 'C'")))
        << wrong;
  }
}

// Each iteration stores the same to its successor's element, so that only the time of a store is wrong.
TEST(Check, IterationsThatStoreToTheSameBytesAreWrong) {
  CheckResult result = check_part(
      "for (int64_t i = begin; i < end; ++i) { c[i] = a[i] + 2; if (i + 1 < 1000) c[i + 1] = 0; }"
      "for (int64_t i = begin; i < end; ++i) c[i] = a[i] + 1;"
      "if (begin == 0) for (int64_t i = 0; i < 1000; ++i) c[i] = a[i] + 1;");
  EXPECT_EQ(result.verdict, Verdict::Wrong);
  EXPECT_THAT(result.message, HasSubstr("store to the same bytes of 'C'"));
}

// In a type where every pattern is a value: values that look like poison are no fault, holes are.
CheckResult check_bytes(const std::string& body) {
  KernelSource source = test::unary_kernel("unsigned char* out = (void*)c;" + body, kCheckCount);
  source.description.main.params[1].elem = ElemType::u8;
  Kernel kernel(compile(source).object, source.description);
  OperandSet operands(unary_operands(kCheckCount, ElemType::u8), 5);
  ThreadPool pool(1);
  BoundKernel bound(kernel, operands, {}, pool);
  Reference reference = make_reference(ElemType::u8, {kCheckCount}, 96, 5, [](int64_t i) {
    return Oracle::Value{static_cast<double>(i % 256), 1, 1, 0};
  });
  return check_kernel(bound, reference);
}

TEST(Check, ValuesThatLookLikePoisonAreNoFault) {
  CheckResult result = check_bytes("for (int64_t i = 0; i < n; ++i) out[i] = (unsigned char)i;");
  EXPECT_EQ(result.verdict, Verdict::Ok) << result.message;
}

TEST(Check, HolesInNarrowTypesAreFound) {
  CheckResult result =
      check_bytes("for (int64_t i = 0; i < n; ++i) if (i != 301) out[i] = (unsigned char)i;");
  EXPECT_EQ(result.verdict, Verdict::Wrong);
  EXPECT_EQ(result.message, "C[301] was not written");
}

KernelSource packed_kernel(const std::string& pack_body) {
  KernelSource source;
  source.code = test::kPrelude +
                "int32_t kernel(void* const* args, const int64_t* d, const tw_context* x) {\n"
                "  float *p = args[0], *c = args[1];\n"
                "  for (int i = 0; i < 8; ++i) c[i] = p[7 - i];\n  return 0;\n}\n"
                "int32_t pack(void* const* args, const int64_t* d, const tw_context* x) {\n"
                "  float *w = args[0], *p = args[1];\n" +
                pack_body + "\n  return 0;\n}\n";
  source.description.main = {
      "kernel",
      {test::param("B.packed", {8}, ParamRole::Weight), test::param("C", {8}, ParamRole::Output)},
      0,
      0};
  source.description.packs = {
      {"pack", {test::param("B", {8}), test::param("B.packed", {8}, ParamRole::Output)}, 0, 0}};
  return source;
}

CheckResult check_packed(const std::string& pack_body) {
  KernelSource source = packed_kernel(pack_body);
  Kernel kernel(compile(source).object, source.description);
  OperandSet operands({{"B", ElemType::f32, {8}, ParamRole::Weight, {}},
                       {"C", ElemType::f32, {8}, ParamRole::Output, {}}},
                      5);
  ThreadPool pool(1);
  BoundKernel bound(kernel, operands, {}, pool);
  EXPECT_GE(bound.pack_seconds(), 0);
  SeededValues b(5, "B", ElemType::f32);
  return check_kernel(bound, make_reference(ElemType::f32, {8}, 96, 5, [&](int64_t i) {
                        return Oracle::Value{b.at(i), 1, 1, 0};
                      }));
}

TEST(Check, PackedWeightsAreMadeBeforeTheKernelRuns) {
  EXPECT_EQ(check_packed("for (int i = 0; i < 8; ++i) p[i] = w[7 - i];").verdict, Verdict::Ok);
  EXPECT_EQ(check_packed("for (int i = 0; i < 8; ++i) p[i] = w[i];").verdict, Verdict::Wrong);
}

// The second function finds what the first has left on the stack, and its elements are parts of bytes.
TEST(Check, PackingFindsNothingOnTheStack) {
  KernelSource source = packed_kernel("for (int i = 0; i < 8; ++i) p[i] = w[7 - i];");
  KernelFunction& first = source.description.packs[0];
  KernelFunction second = first;
  second.symbol = "pack2";
  second.params.back().name = "B.codes";
  second.params.back().elem = ElemType::u2;
  source.description.packs.push_back(second);
  source.description.main.params.insert(source.description.main.params.end() - 1,
                                        second.params.back());
  const size_t at = source.code.find("int32_t kernel(");
  ASSERT_NE(at, std::string::npos);
  const auto check_second = [&](const std::string& body) {
    KernelSource changed = source;
    changed.code.insert(at,
                        "int32_t pack2(void* const* args, const int64_t* dims, const "
                        "tw_context* context) {\n" +
                            body + "\nreturn 0;\n}\n");
    Kernel kernel(compile(changed).object, changed.description);
    OperandSet operands({{"B", ElemType::f32, {8}, ParamRole::Weight, {}},
                         {"C", ElemType::f32, {8}, ParamRole::Output, {}}},
                        5);
    ThreadPool pool(1);
    return BoundKernel(kernel, operands, {}, pool).pack_fault();
  };
  const std::string codes = "unsigned char* q = args[1]; q[0] = 27; q[1] = 0;";
  EXPECT_EQ(check_second(codes), std::nullopt);
  const auto fault =
      check_second("volatile unsigned char left[4096]; " + codes + " q[1] = left[2000] & 0x80;");
  ASSERT_TRUE(fault);
  EXPECT_THAT(*fault, HasSubstr("what memory held before"));
}

TEST(Check, GuardsStandAroundPackedWeights) {
  CheckResult result = check_packed("for (int i = 0; i < 9; ++i) p[i] = i < 8 ? w[7 - i] : 0;");
  EXPECT_EQ(result.verdict, Verdict::OutOfBounds);
  EXPECT_THAT(result.message, HasSubstr("past the end of 'B.packed'"));
}

TEST(Check, GuardsStandAroundTheWorkspace) {
  KernelSource source = test::unary_kernel(
      "char* w = context->workspace; w[60] = 1; for (int64_t i = 0; i < n; ++i) c[i] = 0;", 4);
  source.description.main.workspace_bytes = 60;
  Kernel kernel(compile(source).object, source.description);
  OperandSet operands(unary_operands(4), 5);
  ThreadPool pool(1);
  BoundKernel bound(kernel, operands, {}, pool);
  bound.run();
  ASSERT_TRUE(bound.guard_fault());
  EXPECT_THAT(bound.guard_fault()->message, HasSubstr("past the end of 'workspace' (60 bytes)"));
}

TEST(BoundKernel, RefusesParametersThatDoNotFit) {
  KernelSource source = test::unary_kernel("", 4);
  ThreadPool pool(1);
  auto refusal = [&](const KernelDescription& description) {
    Kernel kernel(compile(source).object, description);
    OperandSet operands(unary_operands(4), 5);
    return error_of<KernelError>([&] { BoundKernel(kernel, operands, {}, pool); });
  };
  EXPECT_EQ(refusal(source.description), "");
  KernelDescription other = source.description;
  other.main.params[0].name = "Q";
  EXPECT_THAT(refusal(other), HasSubstr("'Q' is no operand of the workload"));
  other = source.description;
  other.main.params[0].shape = {5};
  EXPECT_EQ(refusal(other), "kernel parameter 'A' is f32[5], the workload's operand is f32[4]");
  other = source.description;
  other.main.params[1].elem = ElemType::i32;
  EXPECT_EQ(refusal(other), "kernel parameter 'C' is i32[4], the workload's operand is f32[4]");
  other = source.description;
  other.packs = {{"kernel", {test::param("A", {4}), test::param("P", {4})}, 0, 0}};
  EXPECT_THAT(refusal(other), HasSubstr("fills 'P', which the kernel never takes"));
}

Workload gather(int64_t rows) {
  Workload w;
  Var m("M");
  Buffer x = make_buffer("X", ElemType::f32, {Expr(rows), Expr(3)});
  Buffer index = make_buffer("index", ElemType::i32, {m});
  Buffer y = make_buffer("Y", ElemType::f32, {m, Expr(3)});
  Var i("i"), j("j");
  w.inputs = {{x, ParamRole::Input}, {index, ParamRole::Input}};
  w.dims = {{m, 1, 64}};
  w.stages = {
      {y, {i, j}, {}, Reducer::None, load(x, {cast(ElemType::index, load(index, {i})), j})}};
  return w;
}

// An operand that an axis is compared with holds lengths along it.
TEST(Operands, LengthsLieBetweenNothingAndTheWholeAxis) {
  const Workload w = parse_workload("attention:batch=3,m=2,n=5..40,d=4,causal=true,lengths=both");
  std::map<std::string, double> most;
  for (const OperandInfo& info : operands_of(w, {{"n", 30}})) {
    if (!info.range) continue;
    EXPECT_EQ(info.range->min, 0) << info.name;
    most[info.name] = info.range->max;
  }
  EXPECT_EQ(most, (std::map<std::string, double>{{"N", 30}, {"M", 2}}));
}

// Other integers times the least float are infinite, and nothing is known of what follows from them.
TEST(Operands, IntegersBesideAVastConstantAreZerosAndOnes) {
  const auto range = [](const std::string& factor) {
    const Workload w = parse_workload("expr:expr=\"Y[i] = X[i] + (1 - M[i]) * " + factor +
                                      "\",dims.i=4,dtypes.M=i64");
    for (const OperandInfo& info : operands_of(w, {})) {
      if (info.name == "M") return info.range;
    }
    return std::optional<ValueRange>(ValueRange{-1, -1});
  };
  EXPECT_EQ(range("-3.4028234663852886e+38"), (ValueRange{0, 1}));
  EXPECT_EQ(range("-10000"), std::nullopt);
}

TEST(Operands, SubscriptsStayInsideAndShapesFollowTheDimensions) {
  Workload w = gather(10);
  std::vector<OperandInfo> operands = operands_of(w, {{"M", 40}});
  ASSERT_EQ(operands.size(), 3u);
  EXPECT_FALSE(operands[0].range);
  ASSERT_TRUE(operands[1].range);
  EXPECT_EQ(operands[1].range->max, 9);
  EXPECT_EQ(operands[1].shape, (std::vector<int64_t>{40}));
  EXPECT_EQ(operands[2].shape, (std::vector<int64_t>{40, 3}));
  EXPECT_EQ(operands[2].role, ParamRole::Output);
  OperandSet set(operands, 3);
  auto readers = seeded_readers(operands, 3);
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_GE(set.at("index").get(i), 0);
    EXPECT_LE(set.at("index").get(i), 9);
    EXPECT_EQ(readers.at("index")(i), set.at("index").get(i));
  }
  EXPECT_EQ(readers.count("Y"), 0u);
}

TEST(Operands, RefuseDimensionsThatDoNotFit) {
  Workload w = gather(10);
  auto refusal = [&](const std::map<std::string, int64_t>& dims) {
    return error_of<Error>([&] { operands_of(w, dims); });
  };
  EXPECT_EQ(refusal({}), "dynamic dimension 'M' has no value; expected 1 to 64");
  EXPECT_EQ(refusal({{"M", 65}}), "dynamic dimension 'M' is 65; expected 1 to 64");
  EXPECT_EQ(refusal({{"M", 1}, {"K", 2}}), "'K' is no dynamic dimension; there are: M");
}

TEST(Operands, UnknownNameListsTheKnown) {
  OperandSet set(unary_operands(4), 1);
  EXPECT_EQ(error_of<Error>([&] { set.at("B"); }), "no operand 'B'; there are: A, C");
}

}  // namespace
}  // namespace tilewright
