// Databases whose kernels are somebody's machine code: commands survive it, it reaches nothing, and
// wrong results are told from right ones.
#include <gmock/gmock.h>

#include "database/store.h"
#include "runtime/tensor/npy.h"
#include "runtime/worker/sandbox.h"
#include "tests/cli/support.h"
#include "tests/database/fixture.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

// matmul:m=4,n=4,k=4 as the forged kernel's only arguments have it: A, B, C.
constexpr const char* kHostileKernelSpec = "matmul:m=4,n=4,k=4";
constexpr const char* kRight =
    "for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) { float s = 0;"
    "for (int k = 0; k < 4; ++k) s += a[4 * i + k] * b[4 * k + j]; c[4 * i + j] = s; }";

class HostileKernel : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    made_ = (dir_ / "made").string();
    ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 ") + kHostileKernelSpec).code,
              0);
    database::testing::run_sql(dir_ / "tilewright.db", "DELETE FROM records WHERE NOT is_default");
    for (const char* name : {"a.npy", "b.npy"}) {
      HostArray array(name, ElemType::f32, {4, 4});
      for (int64_t i = 0; i < 16; ++i) array.set(i, static_cast<double>(i % 5));
      write_npy(dir_ / name, array);
    }
  }

  // Replaces the only kernel of the database, the untuned default, by one with this body and these
  // declarations in front; all checksums are right. `symbol` is what its description calls.
  void forge(const std::string& body, const std::string& before = "",
             const std::string& symbol = "") {
    using namespace database;
    Store store = Store::open(dir_ / "tilewright.db", Mode::ReadWrite);
    Record best = store.records({.by_time = true, .limit = 1}).records.at(0);
    Artifact kernel = *store.artifact(best.artifact_hash).value;
    Json description = Json::parse(kernel.description);
    ASSERT_TRUE(description.value("packs", Json::array()).empty());
    const std::string own = description.at("main").at("symbol");
    std::ofstream(dir_ / "forged.c")
        << "static long call(long n, long a, long b, long c) { long r;\n"
           "  __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c)\n"
           "                   : \"rcx\", \"r11\", \"memory\"); return r; }\n"
        << before << "\nint " << own
        << "(void* const* args, const long* dims, const void* context) {\n"
           "  float *a = args[0], *b = args[1], *c = args[2];\n"
        << body << "\n  (void)call; return 0;\n}\n";
    ASSERT_EQ(shell("cc -w -O1 -shared -fPIC -nostartfiles -o forged.so forged.c").code, 0);
    const std::string object = read(dir_ / "forged.so");
    const auto* bytes = reinterpret_cast<const std::byte*>(object.data());
    kernel.bytes.assign(bytes, bytes + object.size());
    if (!symbol.empty()) {
      description["main"]["symbol"] = symbol;
      kernel.description = description.dump();
    }
    best.artifact_hash = store.put_artifact(kernel);
    seconds_ /= 2;  // the latest is the best
    best.median_seconds = best.best_seconds = seconds_;
    best.samples = {seconds_};
    best.confirmed = true;
    best.created = 0;
    store.insert(best);
  }

  std::vector<Ran> run_all() {
    std::vector<Ran> all;
    for (const char* command : {"replay --threads 1 ", "bench --threads 1 --rounds 1 ",
                                "run --threads 1 --in A=a.npy --in B=b.npy --out C=c.npy "}) {
      all.push_back(run(command + std::string(kHostileKernelSpec)));
    }
    return all;
  }

  // Each command that runs kernels ends with the code and says this; nothing was made.
  void expect_all(int code, const std::string& said) {
    for (const Ran& ran : run_all()) {
      EXPECT_EQ(ran.code, code) << ran.out << ran.err;
      EXPECT_THAT(ran.out + ran.err, HasSubstr(said));
    }
    EXPECT_FALSE(fs::exists(made_));
    EXPECT_FALSE(fs::exists(dir_ / "c.npy"));
  }

  void expect_stopped(const std::string& body, const std::string& call) {
    forge(body + kRight);
    expect_all(3, "the kernel called " + call + ", which kernels may not");
  }

  std::string made_;  // what hostile kernels try to make
  double seconds_ = 1e-9;
};

#if defined(__x86_64__)

TEST_F(HostileKernel, NoneIsHostileYet) {
  forge(kRight);
  for (const Ran& ran : run_all()) EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_TRUE(fs::exists(dir_ / "c.npy"));
}

// It makes the file by system calls alone, which nothing but the initializer itself would keep from it
// where no filter holds.
TEST_F(HostileKernel, AnInitializerRunsNowhere) {
  forge(kRight,
        "__attribute__((constructor)) static void start(void) {\n"
        "  call(85, (long)\"" +
            made_ + "\", 0600, 0); }\n");
  expect_all(5, "runs when it is loaded or unloaded (DT_INIT_ARRAY)");
  for (const char* command :
       {"explain --threads 1 ", "best --threads 1 ", "show --config --threads 1 ",
        "show --asm --threads 1 ", "export --threads 1 -o out "}) {
    run(command + std::string(kHostileKernelSpec));
    EXPECT_FALSE(fs::exists(made_)) << command;
  }
  run("report -o report.html");
  run("db check");
  EXPECT_FALSE(fs::exists(made_));
}

TEST_F(HostileKernel, LibraryFunctionsAreNotTaken) {
  forge("system(\"touch '" + made_ + "'\");" + kRight, "int system(const char*);");
  expect_all(5, "it takes 'system' from other libraries");
  forge(kRight, "", "system");
  expect_all(3, "the kernel's object has no function 'system'");
}

TEST_F(HostileKernel, SystemCallsEndIt) {
  if (!confinement_problem().empty()) GTEST_SKIP() << confinement_problem();
  expect_stopped("const char* argv[] = {\"/usr/bin/touch\", \"" + made_ +
                     "\", 0}; call(59, (long)argv[0], (long)argv, 0);",
                 "execve");
  expect_stopped("call(257, -100, (long)\"" + made_ + "\", 01101);", "openat");
  expect_stopped("call(57, 0, 0, 0);", "fork");
}

TEST_F(HostileKernel, ACrashIsAMessage) {
  forge("*(volatile int*)8 = 1;");
  expect_all(3, "killed by SIGSEGV");
  forge("call(231, 3, 0, 0);");
  expect_all(3, "exited with code 3");
}

#endif

TEST_F(HostileKernel, AWrongResultIsTold) {
  forge(std::string(kRight) + "c[15] += 1;");
  expect_all(3, "C[3, 3] is ");
  Ran unchecked = run(
      std::string("run --json --no-check --threads 1 --in A=a.npy --in B=b.npy --out C=c.npy ") +
      kHostileKernelSpec);
  EXPECT_EQ(unchecked.code, 0) << unchecked.err;
  EXPECT_EQ(unchecked.json()["checked"], false);
  EXPECT_TRUE(fs::exists(dir_ / "c.npy"));
}

TEST_F(HostileKernel, RunSaysHowMuchItCompared) {
  Ran ran = run(std::string("run --json --threads 1 --in A=a.npy --in B=b.npy --out C=c.npy ") +
                kHostileKernelSpec);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["checked"], true);
  EXPECT_EQ(ran.json()["compared"], 16);
  EXPECT_EQ(ran.json()["compared_by_sums"], false) << "there are no others";
  forge("");
  EXPECT_THAT(run(std::string("run --threads 1 --in A=a.npy --in B=b.npy --out C=c.npy ") +
                  kHostileKernelSpec)
                  .err,
              HasSubstr("C[0, 0] was not written"));
}

}  // namespace
}  // namespace tilewright::cli
