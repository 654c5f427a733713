#include "runtime/compile/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "base/files.h"
#include "runtime/error.h"
#include "runtime/load/kernel.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::ScopedEnv;
using test::TempDir;
using testing::HasSubstr;

class Compile : public testing::Test {
 protected:
  int cached_files() {
    int count = 0;
    std::error_code error;
    for (const auto& e : fs::directory_iterator(dir.path("kernels"), error)) count += e.exists();
    return count;
  }
  TempDir dir;
  ScopedEnv cache{"TILEWRIGHT_CACHE", dir.path()};
};

TEST_F(Compile, SecondTimeComesFromTheCache) {
  KernelSource source = test::unary_kernel("c[0] = a[0];", 1);
  CompiledObject first = compile(source);
  CompiledObject second = compile(source);
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(second.cached);
  EXPECT_EQ(first.object, second.object);
  EXPECT_EQ(first.hash, second.hash);
  EXPECT_EQ(first.path, second.path);
  EXPECT_EQ(read_cached_object(second.path), first.object);
  EXPECT_EQ(read_cached_object(dir.path("missing")), std::nullopt);
  EXPECT_EQ(cached_files(), 1);
}

TEST_F(Compile, AnotherCodeOrFlagIsAnotherEntry) {
  KernelSource source = test::unary_kernel("c[0] = a[0];", 1);
  compile(source);
  KernelSource flags = source;
  flags.flags = {"-DSOMETHING"};
  EXPECT_FALSE(compile(flags).cached);
  KernelSource code = source;
  code.code += "/* more */";
  EXPECT_FALSE(compile(code).cached);
  EXPECT_EQ(cached_files(), 3);
}

TEST_F(Compile, DamagedEntryIsCompiledAgain) {
  KernelSource source = test::unary_kernel("c[0] = a[0];", 1);
  CompiledObject good = compile(source);
  std::string bytes = *read_file(good.path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
  ASSERT_TRUE(write_file_atomic(good.path, bytes));
  CompiledObject again = compile(source);
  EXPECT_FALSE(again.cached);
  EXPECT_EQ(again.object, good.object);
  fs::resize_file(good.path, 10);
  EXPECT_FALSE(compile(source).cached);
  EXPECT_TRUE(compile(source).cached);
}

TEST_F(Compile, WorksWithoutACache) {
  KernelSource source = test::unary_kernel("c[0] = a[0];", 1);
  CompileOptions options;
  options.use_cache = false;
  CompiledObject direct = compile(source, options);
  EXPECT_EQ(direct.path, "");
  EXPECT_EQ(cached_files(), 0);
  ScopedEnv off("TILEWRIGHT_CACHE", "off");
  EXPECT_EQ(compile(source).object, direct.object);
  ScopedEnv nowhere("TILEWRIGHT_CACHE", "/proc/no/such/place");
  EXPECT_EQ(compile(source).object, direct.object);
}

TEST_F(Compile, RefusedSourceCarriesTheCompilersWords) {
  KernelSource source = test::unary_kernel("c[0] = undeclared_thing;", 1);
  std::string message = error_of<CompileError>([&] { compile(source); });
  EXPECT_THAT(message, HasSubstr("exit code 1"));
  EXPECT_THAT(message, HasSubstr("undeclared_thing"));
  EXPECT_EQ(cached_files(), 0);
}

TEST_F(Compile, MissingCompilerIsAToolchainError) {
  CompileOptions options;
  options.compiler = "no-such-compiler";
  KernelSource source = test::unary_kernel("", 1);
  std::string message = error_of<ToolchainError>([&] { compile(source, options); });
  EXPECT_THAT(message, HasSubstr("no working C compiler: 'no-such-compiler'"));
  EXPECT_THAT(message, HasSubstr("TILEWRIGHT_CC"));
}

TEST_F(Compile, CxxGoesToTheCompilerOfItsOwn) {
  KernelSource source;
  source.language = SourceLanguage::Cxx;
  source.code =
      "template <class T> T twice(T x) { return 2 * x; }\n"
      "extern \"C\" int f(int x) { return twice(x); }\n";
  CompiledObject first = compile(source);
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(compile(source).cached);
  ScopedEnv missing("TILEWRIGHT_CXX", "no-such-compiler");
  std::string message = error_of<ToolchainError>([&] { compile(source); });
  EXPECT_THAT(message, HasSubstr("no working C++ compiler: 'no-such-compiler'"));
  EXPECT_THAT(message, HasSubstr("install g++ or name one in TILEWRIGHT_CXX"));
}

TEST_F(Compile, CompilerThatFailsItsVersionIsAToolchainError) {
  CompileOptions options;
  options.compiler = "false";
  KernelSource source = test::unary_kernel("", 1);
  EXPECT_THAT(error_of<ToolchainError>([&] { compile(source, options); }),
              HasSubstr("exit code 1"));
}

// A stand-in for a compiler: a script that answers --version and else does `body`.
std::string script(const TempDir& dir, const std::string& body) {
  std::string path = dir.path("fake-cc");
  std::ofstream(path) << "#!/bin/sh\nif [ \"$1\" = --version ]; then echo fake 1.0; exit; fi\n"
                      << body << "\n";
  chmod(path.c_str(), 0755);
  return path;
}

TEST_F(Compile, HangingCompilerIsKilled) {
  CompileOptions options;
  options.compiler = script(dir, "sleep 1000");
  options.timeout_seconds = 0.2;
  KernelSource source = test::unary_kernel("", 1);
  EXPECT_THAT(error_of<CompileError>([&] { compile(source, options); }), HasSubstr("timed out"));
}

TEST_F(Compile, CrashingCompilerIsReportedByItsSignal) {
  CompileOptions options;
  options.compiler = script(dir, "kill -SEGV $$");
  KernelSource source = test::unary_kernel("", 1);
  EXPECT_THAT(error_of<CompileError>([&] { compile(source, options); }), HasSubstr("SIGSEGV"));
}

TEST_F(Compile, SuccessWithoutAnObjectIsACompileError) {
  CompileOptions options;
  KernelSource source = test::unary_kernel("", 1);
  options.compiler = script(dir, "exit 0");
  EXPECT_THAT(error_of<CompileError>([&] { compile(source, options); }),
              HasSubstr("exit code 0, but it wrote no output"));
  EXPECT_THAT(error_of<CompileError>([&] { compile_to_assembly(source, options); }),
              HasSubstr("it wrote no output"));
  options.compiler = script(dir, "for last; do :; done; : > \"$last\"");
  EXPECT_THAT(error_of<CompileError>([&] { compile(source, options); }),
              HasSubstr("exit code 0, but it wrote an empty output"));
  EXPECT_EQ(cached_files(), 0);
}

TEST_F(Compile, ACacheThatOthersMayWriteIsNotUsed) {
  KernelSource source = test::unary_kernel("c[0] = a[0];", 1);
  ASSERT_NE(compile(source).path, "");
  ASSERT_EQ(chmod(dir.path("kernels").c_str(), 0775), 0);
  testing::internal::CaptureStderr();
  CompiledObject open_to_others = compile(source);
  compile(source);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(open_to_others.cached);
  EXPECT_EQ(open_to_others.path, "");
  EXPECT_THAT(said, HasSubstr("kernels' is not used: others may write to it; chmod go-w"));
  EXPECT_EQ(said.find("warning"), said.rfind("warning")) << "said once";
  ASSERT_EQ(chmod(dir.path("kernels").c_str(), 0755), 0);
  EXPECT_TRUE(compile(source).cached);
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0);
  EXPECT_EQ(compile(source).path, "");
}

TEST_F(Compile, ACachedObjectThatOthersMayWriteIsNotRead) {
  KernelSource source = test::unary_kernel("c[0] = a[0];", 1);
  std::string path = compile(source).path;
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(read_cached_object(path), std::nullopt);
  EXPECT_FALSE(compile(source).cached);
  fs::rename(path, dir.path("elsewhere"));
  fs::create_symlink(dir.path("elsewhere"), path);
  EXPECT_EQ(read_cached_object(path), std::nullopt);
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(read_cached_object(path), std::nullopt) << "and does not wait for a writer";
}

TEST_F(Compile, TheCacheIsMadeForThisUserAlone) {
  ScopedEnv made("TILEWRIGHT_CACHE", dir.path("new/cache"));
  compile(test::unary_kernel("c[0] = a[0];", 1));
  for (const char* name : {"new/cache", "new/cache/kernels"}) {
    struct stat status {};
    ASSERT_EQ(stat(dir.path(name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 077, 0u) << name;
  }
}

TEST_F(Compile, AFullDiskIsNoFaultOfTheSource) {
  CompileOptions options;
  options.compiler = script(dir, "echo 'a.o: No space left on device' >&2; exit 1");
  KernelSource source = test::unary_kernel("", 1);
  std::string message = error_of<ToolchainError>([&] { compile(source, options); });
  EXPECT_THAT(message, HasSubstr("cannot write to the temporary directory"));
  EXPECT_THAT(message, HasSubstr("No space left on device; make room, or name another in TMPDIR"));
}

TEST_F(Compile, ATemporaryDirectoryThatIsNoneIsNoFaultOfTheSource) {
  ScopedEnv nowhere("TMPDIR", dir.path("nowhere"));
  KernelSource source = test::unary_kernel("c[0] = a[0];", 1);
  EXPECT_THAT(error_of<ToolchainError>([&] { compile(source); }),
              HasSubstr("nowhere': No such file or directory"));
}

TEST_F(Compile, IdentityIsTheFirstLineOfTheVersion) {
  EXPECT_EQ(compiler_identity(script(dir, "")), "fake 1.0");
  EXPECT_THAT(compiler_identity(), testing::Not(HasSubstr("\n")));
}

TEST_F(Compile, ManyThreadsAtOnceAgree) {
  KernelSource source = test::unary_kernel("c[0] = a[0] * 3;", 1);
  std::vector<std::string> hashes(4);
  std::vector<std::thread> threads;
  for (std::string& hash : hashes) {
    threads.emplace_back([&] { hash = compile(source).hash; });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes[0]);
  EXPECT_EQ(cached_files(), 1);
}

TEST_F(Compile, PruneDropsTheOldestFirst) {
  KernelSource old_source = test::unary_kernel("c[0] = 1;", 1);
  KernelSource new_source = test::unary_kernel("c[0] = 2;", 1);
  CompiledObject oldest = compile(old_source), newest = compile(new_source);
  fs::last_write_time(oldest.path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  prune_compile_cache(static_cast<int64_t>(fs::file_size(newest.path)));
  EXPECT_FALSE(fs::exists(oldest.path));
  EXPECT_TRUE(fs::exists(newest.path));
}

TEST_F(Compile, AssemblyNamesTheFunction) {
  EXPECT_THAT(compile_to_assembly(test::unary_kernel("c[0] = a[0];", 1)), HasSubstr("kernel:"));
}

}  // namespace
}  // namespace tilewright
