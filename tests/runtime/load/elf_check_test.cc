#include "runtime/load/elf_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>
#include <random>

#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "runtime/load/loader.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using testing::HasSubstr;

std::string object_of(const std::string& code, const std::vector<std::string>& flags = {},
                      const std::string& compiler = "") {
  KernelSource source;
  source.code = test::kPrelude + code;
  source.flags = flags;
  CompileOptions options;
  options.compiler = compiler;
  return compile(source, options).object;
}

std::string problem_of(const std::string& code, const std::vector<std::string>& flags = {}) {
  return object_problem(object_of(code, flags));
}

bool has_program(const char* name) {
  return std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0;
}

// A kernel with tables, calls of libm, and what compilers make of loops that fill and copy.
const char* const kUsual = R"(
float expf(float); float tanhf(float); double fma(double, double, double);
static float state[64];
static const float table[4] = {1, 2, 3, 4};
static const float* const volatile rows[2] = {table, table + 2};
int32_t kernel(void* const* args, const int64_t* dims, const tw_context* context) {
  float *a = args[0], *c = args[1];
  for (int64_t i = 0; i < dims[0]; ++i) c[i] = expf(a[i]) + tanhf(a[i]) * rows[i & 1][0];
  for (int64_t i = 0; i < dims[1]; ++i) c[i] = 0;
  __builtin_memmove(c, a, dims[2]);
  state[dims[0]] += (float)fma(c[0], a[0], __builtin_memcmp(a, c, dims[1]));
  return (int32_t)state[3];
})";

TEST(ElfCheck, TakesWhatCompilersMakeOfKernels) {
  EXPECT_EQ(problem_of(kUsual), "");
  for (const char* flag :
       {"-Wl,--hash-style=sysv", "-Wl,--hash-style=both", "-Wl,-z,now", "-Wl,-z,noseparate-code",
        "-Wl,-z,pack-relative-relocs", "-fstack-protector-all", "-Wl,--build-id", "-O0"}) {
    EXPECT_EQ(problem_of(kUsual, {flag}), "") << flag;
  }
  for (const char* linker : {"mold", "lld"}) {
    if (!has_program((std::string("ld.") + linker).c_str())) continue;
    EXPECT_EQ(problem_of(kUsual, {std::string("-fuse-ld=") + linker}), "") << linker;
  }
  if (has_program("clang")) {
    EXPECT_EQ(object_problem(object_of(kUsual, {}, "clang")), "");
  }
}

TEST(ElfCheck, RefusesCodeThatRunsWhenItIsLoaded) {
  const std::string code = "int32_t x;\nint32_t kernel(void) { return x; }\n";
  EXPECT_THAT(problem_of(code + "__attribute__((constructor)) void f(void) { x = 1; }"),
              HasSubstr("runs when it is loaded or unloaded (DT_INIT_ARRAY)"));
  EXPECT_THAT(problem_of(code + "__attribute__((destructor)) void f(void) { x = 1; }"),
              HasSubstr("(DT_FINI_ARRAY)"));
  EXPECT_THAT(problem_of(code, {"-Wl,-init,kernel"}), HasSubstr("(DT_INIT)"));
  EXPECT_THAT(problem_of(code, {"-Wl,-fini,kernel"}), HasSubstr("(DT_FINI)"));
  const std::string resolver =
      "static int one(void) { return 1; }\n"
      "static void* choose(void) { return one; }\n";
  EXPECT_THAT(problem_of(resolver + "int kernel(void) __attribute__((ifunc(\"choose\")));"),
              HasSubstr("'kernel' is a function that runs while it is loaded (STT_GNU_IFUNC)"));
  EXPECT_THAT(problem_of(resolver + "static int f(void) __attribute__((ifunc(\"choose\")));\n"
                                    "int kernel(void) { return f(); }"),
              HasSubstr("(IRELATIVE)"));
}

TEST(ElfCheck, RefusesOtherLibrariesAndFunctions) {
  EXPECT_THAT(problem_of("int system(const char*);\nint kernel(void) { return system(\"id\"); }"),
              HasSubstr("it takes 'system' from other libraries"));
  EXPECT_THAT(problem_of("__attribute__((weak)) int execve(void);\n"
                         "int kernel(void) { return execve ? execve() : 0; }"),
              HasSubstr("'execve'"));
  EXPECT_THAT(problem_of("extern char** environ;\nint kernel(void) { return environ != 0; }"),
              HasSubstr("'environ'"));
  EXPECT_THAT(problem_of("int kernel(void) { return 1; }", {"-Wl,--no-as-needed", "-ldl", "-lz"}),
              HasSubstr("it needs the library 'lib"));
  // A name that it has itself, which the loader would yet find in the C library first.
  EXPECT_THAT(problem_of("int system(const char* s) { return 0; }\n"
                         "static int (*volatile f)(const char*) = system;\n"
                         "int kernel(void) { return f(\"id\"); }"),
              HasSubstr("names its own symbol 'system'"));
}

TEST(ElfCheck, RefusesWhatChangesNamesAndMemory) {
  const std::string code = "int kernel(void) { return 1; }";
  EXPECT_THAT(problem_of(code, {"-Wl,-rpath,/tmp"}), HasSubstr("DT_RUNPATH"));
  EXPECT_THAT(problem_of(code, {"-Wl,--disable-new-dtags", "-Wl,-rpath,/tmp"}),
              HasSubstr("DT_RPATH"));
  EXPECT_THAT(problem_of(code, {"-Wl,-soname,libc.so.6"}), HasSubstr("DT_SONAME"));
  EXPECT_THAT(problem_of(code, {"-Wl,--audit=x.so"}), HasSubstr("DT_AUDIT"));
  EXPECT_THAT(problem_of(code, {"-Wl,-F,x.so"}), HasSubstr("DT_FILTER"));
  EXPECT_THAT(problem_of(code, {"-Wl,-f,x.so"}), HasSubstr("DT_AUXILIARY"));
  EXPECT_THAT(problem_of(code, {"-Wl,-z,execstack"}), HasSubstr("executable stack"));
  EXPECT_THAT(problem_of("__asm__(\".section .wx,\\\"awx\\\"\\n.byte 1\\n.text\");\n" + code),
              HasSubstr("writable and executable"));
  EXPECT_THAT(problem_of("__thread int t;\nint kernel(void) { return t++; }"), HasSubstr("PT_TLS"));
  EXPECT_THAT(
      problem_of("const char i[] __attribute__((section(\".interp\"))) = \"/bin/sh\";\n" + code),
      HasSubstr("PT_INTERP"));
}

TEST(ElfCheck, RefusesOtherFiles) {
  EXPECT_THAT(object_problem("not an object"), HasSubstr("no ELF object (13 bytes)"));
  EXPECT_THAT(object_problem(""), HasSubstr("no ELF object"));
  std::string object = object_of(kUsual);
  std::string other = object;
  other[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(object_problem(other), HasSubstr("no 64-bit little-endian ELF"));
  other = object;
  other[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_RISCV);
  EXPECT_THAT(object_problem(other), HasSubstr("another processor"));
  other = object;
  other[offsetof(Elf64_Ehdr, e_type)] = ET_EXEC;
  EXPECT_THAT(object_problem(other), HasSubstr("no shared object"));
  EXPECT_THAT(error_of<KernelError>([&] { load_shared_object(other); }),
              HasSubstr("cannot load a kernel: it is no shared object"));
}

// dlsym() also looks into the libraries that an object needs.
TEST(ElfCheck, FunctionsAreTheObjectsOwn) {
  void* handle = load_shared_object(object_of(kUsual));
  EXPECT_NE(symbol_of(handle, "kernel"), nullptr);
  EXPECT_NE(dlsym(handle, "system"), nullptr);
  EXPECT_EQ(symbol_of(handle, "system"), nullptr);
  EXPECT_EQ(symbol_of(handle, "expf"), nullptr);
  dlclose(handle);
}

// Section headers are not what the loader reads: an object without any is the same to it.
TEST(ElfCheck, SectionHeadersDoNotCount) {
  std::string hostile = object_of(
      "int x;\nint kernel(void) { return x; }\n"
      "__attribute__((constructor)) void f(void) { x = 1; }");
  Elf64_Ehdr header;
  std::memcpy(&header, hostile.data(), sizeof header);
  header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
  std::memcpy(hostile.data(), &header, sizeof header);
  EXPECT_THAT(object_problem(hostile), HasSubstr("DT_INIT_ARRAY"));
}

TEST(ElfCheck, TruncatedObjectsAreRefused) {
  const std::string object = object_of(kUsual);
  // Section headers lie last, and are not needed.
  for (size_t size = 0; size < 4096; ++size) {
    ASSERT_NE(object_problem(object.substr(0, size)), "") << size;
  }
  for (size_t size = 4096; size < object.size(); size += 97) object_problem(object.substr(0, size));
}

// One of the places that say how an object is loaded: headers, tables of symbols and relocations, and
// the dynamic section.
size_t structural_offset(const std::string& object, std::mt19937_64& random) {
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  for (int i = 0; i < header.e_phnum && random() % 2 == 0; ++i) {
    Elf64_Phdr p;
    std::memcpy(&p, object.data() + header.e_phoff + i * sizeof p, sizeof p);
    if (p.p_type == PT_DYNAMIC) return p.p_offset + random() % p.p_filesz;
  }
  return random() % 1400;
}

std::string mutant_of(const std::string& whole, std::mt19937_64& random) {
  std::string object = whole;
  for (uint64_t count = 1 + random() % 3; count > 0; --count) {
    size_t at = structural_offset(whole, random);
    switch (random() % 3) {
      case 0: object[at] = static_cast<char>(object[at] ^ (1 << random() % 8)); break;
      case 1: object[at] = static_cast<char>(random()); break;
      default: {
        const uint64_t words[] = {0, 1, ~uint64_t{0}, object.size(), 0x1000, DT_INIT, DT_NULL};
        std::memcpy(object.data() + at / 8 * 8, &words[random() % std::size(words)], 8);
      }
    }
  }
  return object;
}

#if defined(__x86_64__)
// The initializer ends the process with this code.
constexpr int kRan = 77;

TEST(ElfCheck, MutantsWithAnInitializerNeverRunIt) {
  const std::string object = object_of(
      std::string(kUsual) +
      "__attribute__((constructor)) void f(void) {\n"
      "  __asm__ volatile(\"syscall\" : : \"a\"(231), \"D\"(77) : \"rcx\", \"r11\", \"memory\");\n"
      "}\n");
  std::mt19937_64 random(21);
  int loaded = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string mutant = mutant_of(object, random);
    if (!object_problem(mutant).empty()) continue;
    ++loaded;
    pid_t child = fork();
    if (child == 0) {
      try {
        load_shared_object(mutant);
      } catch (const KernelError&) {
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << "mutant " << i << ": signal " << WTERMSIG(status);
    ASSERT_NE(WEXITSTATUS(status), kRan) << "mutant " << i;
  }
  RecordProperty("loaded", loaded);
}

// The loader can at least handle an object that passes.
TEST(ElfCheck, MutantsOfKernelsThatPassDoNotBreakTheLoader) {
  const std::string object = object_of(kUsual);
  std::mt19937_64 random(22);
  int passed = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string mutant = mutant_of(object, random);
    if (!object_problem(mutant).empty()) continue;
    ++passed;
    pid_t child = fork();
    if (child == 0) {
      try {
        load_shared_object(mutant);
      } catch (const KernelError&) {
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << "mutant " << i << ": signal " << WTERMSIG(status);
  }
  EXPECT_GT(passed, 10);
}
#endif

}  // namespace
}  // namespace tilewright
