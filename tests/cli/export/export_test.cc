// tune-cli export: what comes out builds alone and checks itself.
#include <gmock/gmock.h>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ExportCommand : public Cli {
 protected:
  // Exports with these arguments to the folder "out" and returns its one result.
  Json export_one(const std::string& arguments) {
    Ran ran = run("export --json --threads 1 -o out " + arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? ran.json()["results"][0] : Json();
  }

  // Builds by the line that was printed, warnings being errors, and runs the check.
  Ran build_and_check(const Json& exported, const std::string& arguments = "") {
    std::string name = exported["name"];
    Ran built = shell("cd out && " + exported["build"].get<std::string>() + " -Wall -Werror");
    EXPECT_EQ(built.code, 0) << built.err;
    return shell("out/" + name + "_check " + arguments);
  }

  void replace_in(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = read(dir_ / file);
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(dir_ / file) << text.replace(at, from.size(), to);
  }
};

constexpr const char* kWorkloads[] = {
    "'matmul:m=37,n=50,k=21,epilogue=[bias,relu]'",
    "conv2d:n=1,h=9,w=10,ci=8,co=24,kernel=3,pad=1",
    "softmax:m=24,n=40",
};

TEST_F(ExportCommand, BestKernelsBuildAloneAndCheckThemselves) {
  for (const char* spec : kWorkloads) {
    ASSERT_EQ(run(std::string("tune --quiet --trials 4 --threads 1 ") + spec).code, 0) << spec;
    Json exported = export_one(spec);
    EXPECT_EQ(exported["files"].size(), 3u);
    Ran checked = build_and_check(exported);
    EXPECT_EQ(checked.code, 0) << spec << checked.out;
    EXPECT_THAT(checked.out, StartsWith("ok: max error ")) << spec;
    EXPECT_THAT(checked.out, HasSubstr("all elements of the untuned loops")) << spec;
  }
}

// The line that is printed works where it is pasted.
TEST_F(ExportCommand, PrintsALineThatBuilds) {
  const Ran ran = run("export --default --quiet -o 'my out' matmul:m=5,n=7,k=9");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("cd 'my out' && cc "));
  const Ran built = shell(ran.out.substr(0, ran.out.find('\n')));
  EXPECT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(run("export --default --quiet -o . matmul:m=5,n=7,k=9").out, StartsWith("cc "));
}

TEST_F(ExportCommand, DefaultsOfEveryKindOfElementCheckThemselves) {
  for (const char* spec :
       {"matmul:m=5,n=7,k=9,dtype=f64", "matmul:m=5,n=7,k=9,dtype=bf16",
        "matmul:m=5,n=7,k=9,dtype=f16", "matmul:m=5,n=7,k=9,dtype=i8", "matmul:m=4..9,n=7,k=9",
        "gather:rows=8,cols=5,index=6", "'expr:expr=\"int[i] = args[i] * 2\",dims.i=33'"}) {
    Ran checked = build_and_check(export_one(std::string("--default ") + spec));
    EXPECT_EQ(checked.code, 0) << spec << checked.out;
    EXPECT_THAT(checked.out, StartsWith("ok: max error ")) << spec;
  }
}

// Weights of few bits and with zeros: the source holds what packs them, and the check makes them.
TEST_F(ExportCommand, StoredWeightsArePackedAndChecked) {
  for (const char* spec :
       {"matmul:m=4,n=32,k=64,w.dtype=u4,w.group=16,w.zero=u4,w.scale=f16",
        "matmul:m=4,n=32,k=64,w.dtype=i4,w.group=32,w.scale=bf16,w.sparse=2:4,w.vector=16",
        "matmul:m=4,n=32,k=64,dtype=i8,w.dtype=i8"}) {
    std::string tune = std::string("tune --quiet --trials 4 --threads 1 ") + spec;
    ASSERT_EQ(run(tune).code, 0) << spec;
    Json exported = export_one(spec);
    std::string header = read(dir_ / "out" / (exported["name"].get<std::string>() + ".h"));
    // Which of the few candidates wins is up to the machine; that of one that packs, packs.
    std::string source = read(dir_ / "out" / (exported["name"].get<std::string>() + ".c"));
    bool packs = source.find("tw_pack_") != std::string::npos;
    EXPECT_EQ(header.find("_pack_") != std::string::npos, packs) << spec;
    Ran checked = build_and_check(exported);
    EXPECT_EQ(checked.code, 0) << spec << checked.out;
    EXPECT_THAT(checked.out, HasSubstr("all elements of the untuned loops")) << spec;
  }
}

TEST_F(ExportCommand, DefaultsOfEveryStoredTypeCheckThemselves) {
  for (const char* form :
       {"i8", "u8,w.zero=u8", "i4,w.group=8,w.scale=e8m0", "u2,w.zero=f16", "i1", "nf4,w.group=5",
        "f4e2m1,w.scale=f8e4m3", "f8e5m2,w.sparse=1:4,w.vector=3",
        "u4,w.zero=u4,w.group=4,w.sparse=2:4,trans_b=true,batch=2"}) {
    std::string spec = std::string("--default matmul:m=3,n=7,k=10,w.dtype=") + form;
    Ran checked = build_and_check(export_one(spec));
    EXPECT_EQ(checked.code, 0) << spec << checked.out;
  }
  Ran conv = build_and_check(export_one(
      "--default conv2d:n=1,h=4,w=4,ci=3,co=5,kernel=2,w.dtype=i4,w.group=5,w.sparse=1:3"));
  EXPECT_EQ(conv.code, 0) << conv.out;
}

TEST_F(ExportCommand, ACheckOfAWrongKernelFails) {
  Json exported = export_one("--default matmul:m=5,n=7,k=9");
  std::string name = exported["name"];
  std::string source = "out/" + name + ".c";
  replace_in(source, "return run_serially(tw_main", "return 0 * run_serially(tw_pass");
  replace_in(source, "\nsize_t ",
             "\nstatic int32_t tw_pass(void* const* a, const int64_t* d, const "
             "tw_context* c) {\n  tw_main(a, d, c);\n  "
             "((float*)a[2])[17] += 0.01f;\n  return 0;\n}\n\nsize_t ");
  Ran checked = build_and_check(exported);
  EXPECT_EQ(checked.code, 1);
  EXPECT_THAT(checked.out, StartsWith("wrong: element 17 is "));
}

TEST_F(ExportCommand, LargeWorkloadsCompareAllElementsWhenAsked) {
  // The untuned loops would take seconds here: they do not run unasked.
  Json exported = export_one("--default matmul:m=1024,n=1024,k=1024");
  std::string check = read(dir_ / "out" / (exported["name"].get<std::string>() + "_check.c"));
  EXPECT_THAT(check, HasSubstr("int full = 0 || (argc > 1 && strcmp(argv[1], \"full\") == 0);"));
}

TEST_F(ExportCommand, ACallersPoolRunsTheParallelLoops) {
  Json exported = export_one("--default matmul:m=8,n=4,k=4");
  std::string name = exported["name"];
  std::ofstream(dir_ / "out/pool.cc") << "#include \"" + name + R"(.h"
#include <cstdio>
#include <cstdlib>
static int calls = 0;
static void halves(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
                   void* closure) {
  calls += *static_cast<int*>(pool);
  body(closure, n / 2, n, 1);
  body(closure, 0, n / 2, 0);
}
int main() {
  float* a = static_cast<float*>(aligned_alloc(64, 128));
  float* b = static_cast<float*>(aligned_alloc(64, 64));
  float* c = static_cast<float*>(aligned_alloc(64, 128));
  float* d = static_cast<float*>(aligned_alloc(64, 128));
  for (int i = 0; i < 32; ++i) a[i] = i;
  for (int i = 0; i < 16; ++i) b[i] = i % 5;
  int step = 1;
  void* workspace = aligned_alloc(64, )" + name +
                                             R"(_workspace_bytes(2) + 64);
  tw_context two = {2, halves, &step, workspace};
  if ()" + name + "(a, b, c, &two) != 0 || " +
                                             name + R"((a, b, d, nullptr) != 0) return 1;
  for (int i = 0; i < 32; ++i) if (c[i] != d[i]) return 2;
  std::printf("%d", calls > 0);
})";
  Ran ran = shell("cd out && cc -O1 -c " + name + ".c && c++ -std=c++17 -Wall -Werror pool.cc " +
                  name + ".o -lm -o pool && ./pool");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "1") << "the pool was called";
}

TEST_F(ExportCommand, AMissNamesTheCommandThatWouldTuneAndWritesNothing) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 ") + kSmall).code, 0);
  Ran miss = run("export --threads 1 -o out matmul:m=5,n=5,k=5");
  EXPECT_EQ(miss.code, 7);
  EXPECT_THAT(miss.err, HasSubstr("this would tune it: tune-cli tune 'matmul:m=5,n=5,k=5' --db "
                                  "tilewright.db --threads 1; --default exports the untuned"));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  EXPECT_EQ(run("export --db none.db -o out matmul:m=5,n=5,k=5").code, 5);
}

TEST_F(ExportCommand, BadOutputsAreRefused) {
  EXPECT_EQ(run("export --default matmul:m=5,n=5,k=5").code, 2) << "no -o";
  std::ofstream(dir_ / "file") << "no folder";
  Ran file = run("export --default -o file matmul:m=5,n=5,k=5");
  EXPECT_EQ(file.code, 2);
  EXPECT_THAT(file.err, HasSubstr("-o: cannot make the folder 'file'"));
  Ran type = run("export --default -o out matmul:m=5,n=5,k=5,dtype=f8e4m3");
  EXPECT_EQ(type.code, 2);
  EXPECT_THAT(type.err, HasSubstr("the self check cannot read an output of type f8e4m3"));
}

}  // namespace
}  // namespace tilewright::cli
