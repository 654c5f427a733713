// tune-cli export of a model file: the library that `make` builds is called from C and compared with values
// made by hand.
#include <gmock/gmock.h>

#include "runtime/tensor/npy.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using testing::HasSubstr;

class ExportModel : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    OnnxFile file;
    file.input("x", {"batch", 4}).floats("w", {4, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
    file.floats("v", {3, 3}, {2, 0, 0, 0, 3, 0, 0, 0, 4}).node("MatMul", {"x", "w"}, {"a"});
    file.node("Relu", {"a"}, {"r"}).node("MatMul", {"r", "v"}, {"int"}).output("int");
    file.node("Transpose", {"r"}, {"t"}).output("t");
    write("m.onnx", file.bytes());
  }
  void compile(const std::string& dims) {
    const Ran ran = run("compile m.onnx --dim " + dims +
                        " -o my-model.tw --db k.db --trials 0 --threads 1 --quiet");
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
};

constexpr const char* kCaller = R"(
#include <math.h>
#include <stdio.h>
#include "out/my_model.h"
static int calls;
static void in_halves(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t), void* closure) {
  ++calls;
  if (n / 2 > 0) body(closure, 0, n / 2, 0);
  body(closure, n / 2, n, 1);
  (void)pool;
}
int main(void) {
  float x[2 * 4], y[2 * 3], t[3 * 2];
  my_model* model = my_model_open(2);
  if (!model) return 1;
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 8; ++i) x[i] = i - 3 + run;
    tw_context context = {2, in_halves, 0, 0}, wide = {3, in_halves, 0, 0};
    if (my_model_run(model, x, y, t, run < 2 ? 0 : &context) != 0) return 2;
    if (my_model_run(model, x, y, t, &wide) != -1) return 3;
    for (int row = 0; row < 2; ++row)
      for (int column = 0; column < 3; ++column) {
        const float sum = fmaxf(x[row * 4 + column] + x[row * 4 + 3], 0);
        if (t[column * 2 + row] != sum) return printf("t %g %g\n", t[column * 2 + row], sum), 4;
        if (y[row * 3 + column] != sum * (column + 2)) return 5;
      }
  }
  my_model_close(model);
  puts("right");
  return 0;
}
)";

TEST_F(ExportModel, RunsWithoutAnythingOfOurs) {
  compile("batch=2");
  const Ran ran = run("export my-model.tw -o out --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json said = ran.json();
  EXPECT_EQ(said["name"], "my_model");
  EXPECT_EQ(said["build"], "make");
  for (const auto& file : said["files"]) {
    EXPECT_TRUE(fs::exists(dir_ / "out" / file.get<std::string>())) << file;
  }
  fs::remove(dir_ / "k.db");
  fs::remove(dir_ / "my-model.tw");
  const Ran made = shell("make -C out CC='cc -Wall -Wextra -Werror'");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(shell("ldd out/libmy_model.so").out, testing::Not(HasSubstr("tilewright")));
  write("caller.c", kCaller);
  const Ran built = shell("cc -Wall -Wextra -Werror caller.c -Lout -lmy_model -lm -o caller");
  ASSERT_EQ(built.code, 0) << built.err;
  const Ran called = shell("LD_LIBRARY_PATH=out ./caller");
  EXPECT_EQ(called.code, 0) << called.out;
  EXPECT_EQ(called.out, "right\n");
  const Ran with_archive = shell("cc caller.c out/libmy_model.a -lm -o caller && ./caller");
  EXPECT_EQ(with_archive.out, "right\n") << with_archive.err;
}

// Kernels of one workload may differ from model to model.
TEST_F(ExportModel, TwoModelsLieInOneProgram) {
  compile("batch=2");
  ASSERT_EQ(run("export my-model.tw -o one --quiet").code, 0);
  fs::rename(dir_ / "my-model.tw", dir_ / "other.tw");
  ASSERT_EQ(run("export other.tw -o two --quiet").code, 0);
  ASSERT_EQ(shell("make -C one && make -C two").code, 0);
  const Ran symbols = shell(
      "nm -g --defined-only one/libmy_model.a two/libother.a | awk 'NF == 3 {print $3}' | sort | "
      "uniq -d");
  EXPECT_EQ(symbols.out, "");
}

// Fibonacci's numbers from two given ones, the rows in reverse. The second carried value becomes the
// first one, which has another value by then unless it is kept.
constexpr const char* kLoop = R"(graph "loop"
input "a": f32[1]
input "b": f32[1]
input "n": i32[1]
loop 8 at most "n" while "go" for "steps"
input "q": f32[1] = "b" then "r"
input "p": f32[1] = "a" then "q"
const "zero": f32[1] = from "zero.npy"
"r": f32[1] = "expr:dims.i0=1,expr=\"Y[i0] = A[i0] + B[i0] + Z[i0]\"" (A="p", B="q", Z="zero")
"go": u8[1] = "expr:dims.i0=1,out=u8,expr=\"Y[i0] = select(A[i0] < 20, 1, 0)\"" (A="r")
output "q"
output "r"
output "go"
rows back "all": f32[8, 1] = "r"
last "sum": f32[1] = "r"
end
output "all"
output "sum"
)";

constexpr const char* kLoopCaller = R"(
#include <stdio.h>
#include "out/loop.h"
int main(void) {
  loop* model = loop_open(1);
  for (int n = 0; n <= 9; n += 3) {
    float a = 1, b = 2, all[8] = {9, 9, 9, 9, 9, 9, 9, 9}, sum;
    if (loop_run(model, &a, &b, &n, all, &sum, 0) != 0) return 1;
    printf("%d: %g of %g, %g\n", n, sum, n == 3 ? all[0] : 0, all[7]);
  }
  loop_close(model);
  return 0;
}
)";

TEST_F(ExportModel, LoopsAreLoops) {
  write("loop.tg", kLoop);
  write_npy((dir_ / "zero.npy").string(), HostArray("zero", ElemType::f32, {1}));
  const Ran compiled = run("compile loop.tg -o loop.tw --db k.db --trials 0 --threads 1 --quiet");
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  ASSERT_EQ(run("export loop.tw -o out --quiet").code, 0);
  ASSERT_EQ(shell("make -C out CC='cc -Wall -Wextra -Werror'").code, 0);
  write("caller.c", kLoopCaller);
  const Ran called = shell("cc caller.c out/libloop.a -lm -o caller && ./caller");
  // 3, 5, 8, 13, 21: no round follows that.
  EXPECT_EQ(called.out, "0: 2 of 0, 0\n3: 8 of 8, 0\n6: 21 of 0, 0\n9: 21 of 0, 3\n") << called.err;

  HostArray a("a", ElemType::f32, {1}), b("b", ElemType::f32, {1}), n("n", ElemType::i32, {1});
  a.set(0, 1);
  b.set(0, 2);
  n.set(0, 3);
  for (const HostArray* array : {&a, &b, &n}) {
    write_npy((dir_ / (array->name() + ".npy")).string(), *array);
  }
  ASSERT_EQ(run("run loop.tw --in a=a.npy --in b=b.npy --in n=n.npy --out sum=sum.npy "
                "--out all=all.npy")
                .code,
            0);
  EXPECT_EQ(read_npy((dir_ / "all.npy").string()).get(7), 0) << "no round made it";
  EXPECT_EQ(read_npy((dir_ / "sum.npy").string()).get(0), 8) << "the library does the same";
}

TEST_F(ExportModel, RefusesWithTheReason) {
  compile("batch=1..4");
  Ran ran = run("export my-model.tw -o out");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("batch=1..4; models with ranges of sizes are not exported"));
  EXPECT_THAT(ran.err, HasSubstr("--dim batch=4"));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  ran = run("export none.tw -o out");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("'tune-cli compile MODEL.onnx -o none.tw' makes one"));
  ran = run("export my-model.tw -o out --shared");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--shared"));
}

}  // namespace
}  // namespace tilewright::cli
