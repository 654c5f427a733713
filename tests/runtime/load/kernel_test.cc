#include "runtime/load/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/compile/compile.h"
#include "runtime/thread_pool.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using testing::HasSubstr;

struct alignas(64) Floats {
  float at[64] = {};
};

TEST(Kernel, RunsItsMainFunction) {
  KernelSource source = test::unary_kernel("for (int64_t i = 0; i < n; ++i) c[i] = a[i] * 2;", 64);
  Kernel kernel(compile(source).object, source.description);
  Floats a, c;
  for (int i = 0; i < 64; ++i) a.at[i] = static_cast<float>(i);
  void* args[] = {a.at, c.at};
  kernel.launch(args, nullptr, serial_context());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(c.at[i], 2.0f * static_cast<float>(i));
}

// The loader knows objects by name, and descriptor numbers come back: each kernel must be its own.
TEST(Kernel, ManyKernelsOfOneSymbolStayApart) {
  std::vector<Kernel> kernels;
  for (int i = 0; i < 5; ++i) {
    KernelSource source = test::unary_kernel("c[0] = " + std::to_string(i) + ";", 1);
    kernels.emplace_back(compile(source).object, source.description);
  }
  for (int i = 0; i < 5; ++i) {
    Floats a, c;
    void* args[] = {a.at, c.at};
    kernels[static_cast<size_t>(i)].launch(args, nullptr, serial_context());
    EXPECT_EQ(c.at[0], static_cast<float>(i));
  }
}

TEST(Kernel, ParallelBodyRunsOnThePoolAndSeesDimsAndWorkspace) {
  KernelSource source;
  source.code = test::kPrelude + R"(
    struct closure { float* c; float* scratch; };
    static void body(void* p, int64_t begin, int64_t end, int32_t worker) {
      struct closure* k = p;
      k->scratch[worker * 16] = 1;
      for (int64_t i = begin; i < end; ++i) k->c[i] = (float)i;
    }
    int32_t kernel(void* const* args, const int64_t* dims, const tw_context* context) {
      struct closure k = {args[0], context->workspace};
      context->parallel_for(context->pool, dims[0], body, &k);
      return 0;
    })";
  source.description.main = {
      "kernel", {test::param("C", {KernelExtent::dimension(0)}, ParamRole::Output)}, 0, 64};
  source.description.dims = {"M"};
  Kernel kernel(compile(source).object, source.description);
  ThreadPool pool(3);
  Workspace workspace(workspace_bytes(kernel.description().main, pool.threads()));
  EXPECT_EQ(workspace.bytes(), 192);
  Floats c;
  void* args[] = {c.at};
  int64_t dims[] = {50};
  kernel.launch(args, dims, pool.context(workspace.data()));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(c.at[i], static_cast<float>(i));
  EXPECT_EQ(c.at[50], 0);
}

TEST(Kernel, PacksWeights) {
  KernelSource source = test::unary_kernel("", 4);
  source.code += R"(int32_t pack_B(void* const* args, const int64_t* d, const tw_context* x) {
    float *w = args[0], *p = args[1];
    for (int i = 0; i < 4; ++i) p[i] = w[3 - i];
    return 0; })";
  source.description.packs = {{"pack_B", {test::param("B", {4}), test::param("P", {4})}, 0, 0}};
  Kernel kernel(compile(source).object, source.description);
  Floats w, p;
  for (int i = 0; i < 4; ++i) w.at[i] = static_cast<float>(i);
  void* args[] = {w.at, p.at};
  kernel.pack(0, args, serial_context());
  EXPECT_EQ(p.at[0], 3);
  EXPECT_EQ(p.at[3], 0);
}

TEST(Kernel, ReportsAFailingFunction) {
  KernelSource source = test::unary_kernel("return 9;", 1);
  Kernel kernel(compile(source).object, source.description);
  void* args[] = {nullptr, nullptr};
  EXPECT_EQ(error_of<KernelError>([&] { kernel.launch(args, nullptr, serial_context()); }),
            "kernel 'kernel' returned 9");
}

TEST(Kernel, RefusesWhatIsNoKernel) {
  KernelSource source = test::unary_kernel("", 1);
  std::string object = compile(source).object;
  EXPECT_THAT(error_of<KernelError>([&] { Kernel("not an object", source.description); }),
              HasSubstr("no ELF object (13 bytes)"));
  EXPECT_THAT(error_of<KernelError>([&] { Kernel(object.substr(0, 200), source.description); }),
              HasSubstr("cannot load a kernel"));
  KernelDescription other = source.description;
  other.main.symbol = "missing";
  EXPECT_THAT(error_of<KernelError>([&] { Kernel(object, other); }),
              HasSubstr("no function 'missing'"));
  other = source.description;
  other.abi = 99;
  EXPECT_THAT(error_of<KernelError>([&] { Kernel(object, other); }),
              HasSubstr("calling convention 99, this build speaks 1"));
}

TEST(Kernel, DynamicShapesComeFromTheDimensions) {
  KernelParam p = test::param("A", {KernelExtent::dimension(0), 8, KernelExtent::dimension(1)});
  EXPECT_EQ(concrete_shape(p, {5, 7}), (std::vector<int64_t>{5, 8, 7}));
  EXPECT_THAT(error_of<KernelError>([&] { concrete_shape(p, {5}); }),
              HasSubstr("'A' has dynamic dimension 1, but 1 were given"));
}

TEST(KernelDescription, SurvivesJson) {
  KernelDescription d;
  d.main = {"f",
            {test::param("A", {KernelExtent::dimension(0), 4}),
             test::param("B.packed", {2, 2}, ParamRole::Weight, ElemType::u4)},
            128,
            64};
  d.packs = {{"pack", {test::param("B", {4}), test::param("B.packed", {2, 2})}, 1, 2}};
  d.dims = {"M"};
  std::string text = d.to_json();
  KernelDescription back = KernelDescription::from_json(text);
  EXPECT_EQ(back.to_json(), text);
  EXPECT_EQ(back.main.params[1].elem, ElemType::u4);
  EXPECT_EQ(back.main.params[1].role, ParamRole::Weight);
  EXPECT_EQ(back.main.params[0].shape, (std::vector<KernelExtent>{KernelExtent::dimension(0), 4}));
  EXPECT_EQ(back.packs[0].workspace_bytes_per_thread, 2);
}

TEST(KernelDescription, SaysWhatIsWrongWithJson) {
  KernelDescription d;
  d.main = {"f", {test::param("A", {4})}, 0, 0};
  std::string good = d.to_json();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return error_of<Error>([&] { KernelDescription::from_json(text); });
  };
  EXPECT_EQ(error_of<Error>([&] { KernelDescription::from_json(good); }), "");
  EXPECT_THAT(error_of<Error>([] { KernelDescription::from_json("{"); }), HasSubstr("not JSON"));
  EXPECT_THAT(with("\"symbol\"", "\"sym\""), HasSubstr("main: missing key 'symbol'"));
  EXPECT_THAT(with("\"f32\"", "\"f33\""), HasSubstr("unknown element type 'f33'; known: f64"));
  EXPECT_THAT(with("\"abi\":1", "\"abi\":2"), HasSubstr("calling convention 2"));
  EXPECT_THAT(with("[4]", "[0]"), HasSubstr("main.params[0]: extent 0"));
  EXPECT_THAT(with("[4]", "[-1]"), HasSubstr("extent -1"));
  EXPECT_THAT(with("[4]", "\"x\""), HasSubstr("key 'shape' has the wrong type: \"x\""));
  EXPECT_THAT(with("\"input\"", "\"inn\""), HasSubstr("unknown role 'inn'; known: input"));
  EXPECT_THAT(with("\"workspace_bytes\":0", "\"workspace_bytes\":-1"), HasSubstr("is negative"));
}

}  // namespace
}  // namespace tilewright
