// Vectors of every second element and of a part of their lanes, up to the last byte in front of a page that may not
// be read.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "codegen/c/c_types.h"
#include "kernel/target.h"
#include "tests/codegen/compiled_text.h"

namespace tilewright {
namespace {

// Memory in front of a page without permissions.
class Fenced {
 public:
  Fenced() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    memory_ = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED || mprotect(last(0), page_, PROT_NONE) != 0) {
      throw std::runtime_error("mmap");
    }
  }
  ~Fenced() { munmap(memory_, 2 * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  // The place behind the first page, which is taken away as well.
  char* first() {
    if (mprotect(memory_, page_, PROT_NONE) != 0 ||
        mprotect(last(0), page_, PROT_READ | PROT_WRITE) != 0) {
      throw std::runtime_error("mprotect");
    }
    return last(0);
  }
  // The place of the last `bytes`.
  char* last(size_t bytes) { return static_cast<char*>(memory_) + page_ - bytes; }

 private:
  size_t page_;
  void* memory_;
};

// As many lanes as a vector has, and fewer: `n` of them are read.
template <class Element>
void check(const std::string& target_name, ElemType elem, int lanes) {
  SCOPED_TRACE(target_name + ", " + std::to_string(lanes) + " lanes");
  const Target target = Target::parse(target_name);
  Prelude prelude(target);
  const Type type(elem, lanes);
  const std::string all = prelude.helper("second", type),
                    head = prelude.helper("second_head", type),
                    memory = prelude.memory_type(elem, lanes), word = storage_type(elem);
  std::string code = prelude.text() + "void all(const " + word + "* p, " + word + "* y) {\n  *(" +
                     memory + "*)y = " + all + "(p);\n}\nvoid head(const " + word + "* p, " + word +
                     "* y, long n) {\n  *(" + memory + "*)y = " + head + "(p, n);\n}\n";
  const bool instructions = code.find("__builtin_ia32") != std::string::npos;
  if (instructions && !__builtin_cpu_supports("avx512bw"))
    GTEST_SKIP() << "this machine does not run avx512";
  const test::CompiledText text(code, instructions ? "-mavx512f -mavx512bw -mavx512vl" : "");
  auto* whole = text.function<void(const Element*, Element*)>("all");
  auto* some = text.function<void(const Element*, Element*, long)>("head");
  ASSERT_TRUE(whole && some);
  Fenced fenced;
  for (int n = 1; n <= lanes; ++n) {
    const size_t count = 2 * static_cast<size_t>(n) - 1;
    auto* x = reinterpret_cast<Element*>(fenced.last(count * sizeof(Element)));
    for (size_t i = 0; i < count; ++i) x[i] = static_cast<Element>(i + 1);
    std::vector<Element> y(static_cast<size_t>(lanes), static_cast<Element>(99));
    some(x, y.data(), n);
    for (int i = 0; i < lanes; ++i) {
      EXPECT_EQ(y[static_cast<size_t>(i)], i < n ? static_cast<Element>(2 * i + 1) : Element(0))
          << "lane " << i << " of " << n;
    }
    if (n < lanes) continue;
    whole(x, y.data());
    for (int i = 0; i < lanes; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], Element(2 * i + 1));
  }
}

TEST(EverySecond, ReadsNoOtherBytes) {
  check<float>("avx2", ElemType::f32, 8);
  check<float>("avx2", ElemType::f32, 4);
  check<int16_t>("avx2", ElemType::i16, 16);
}

TEST(EverySecond, ReadsNoOtherBytesUnderMasks) {
  check<float>("avx512", ElemType::f32, 16);
  check<int16_t>("avx512", ElemType::i16, 32);
}

// Lanes from one number to another, of which both may lie outside of the vector.
template <class Element>
void check_part(const std::string& target_name, ElemType elem, int lanes) {
  SCOPED_TRACE(target_name + ", " + std::to_string(lanes) + " lanes");
  Prelude prelude(Target::parse(target_name));
  const Type type(elem, lanes);
  const std::string part = prelude.helper("load_part", type),
                    memory = prelude.memory_type(elem, lanes), word = storage_type(elem);
  const std::string code = prelude.text() + "void part(const " + word + "* p, " + word +
                           "* y, long from, long to) {\n  *(" + memory + "*)y = " + part +
                           "(p, from, to);\n}\n";
  const bool instructions = code.find("__builtin_ia32") != std::string::npos;
  if (instructions && !__builtin_cpu_supports("avx512bw"))
    GTEST_SKIP() << "this machine does not run avx512";
  const test::CompiledText text(code, instructions ? "-mavx512f -mavx512bw -mavx512vl" : "");
  auto* function = text.function<void(const Element*, Element*, long, long)>("part");
  ASSERT_TRUE(function);
  Fenced fenced;
  for (int to = -1; to <= lanes + 1; ++to) {
    // Nothing behind the last lane that is read.
    const auto count = static_cast<size_t>(std::clamp(to, 0, lanes));
    auto* x = reinterpret_cast<Element*>(fenced.last(count * sizeof(Element)));
    for (size_t i = 0; i < count; ++i) x[i] = static_cast<Element>(i + 1);
    for (int from = -1; from <= lanes + 1; ++from) {
      std::vector<Element> y(static_cast<size_t>(lanes), static_cast<Element>(99));
      function(x, y.data(), from, to);
      for (int i = 0; i < lanes; ++i) {
        const bool read = i >= from && i < to;
        EXPECT_EQ(y[static_cast<size_t>(i)], read ? static_cast<Element>(i + 1) : Element(0))
            << "lane " << i << " of " << from << " to " << to;
      }
    }
  }
}

// Nothing before the first lane that is read.
TEST(PartOfAVector, ReadsNoBytesBefore) {
  for (const std::string name : {"avx2", "avx512"}) {
    SCOPED_TRACE(name);
    if (name == "avx512" && !__builtin_cpu_supports("avx512bw")) continue;
    Prelude prelude(Target::parse(name));
    const Type type(ElemType::f32, 8);
    const std::string part = prelude.helper("load_part", type);
    const test::CompiledText text(
        prelude.text() + "void part(const float* p, float* y, long from, long to) {\n  *(" +
            prelude.memory_type(type.elem, type.lanes) + "*)y = " + part + "(p, from, to);\n}\n",
        name == "avx512" ? "-mavx512f -mavx512bw -mavx512vl" : "");
    auto* function = text.function<void(const float*, float*, long, long)>("part");
    ASSERT_TRUE(function);
    Fenced fenced;
    auto* x = reinterpret_cast<float*>(fenced.first());
    for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(i + 1);
    for (int from = 0; from <= 8; ++from) {
      std::vector<float> y(8, 99);
      function(x - from, y.data(), from, 8);
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(y[static_cast<size_t>(i)], i >= from ? static_cast<float>(i - from + 1) : 0.0f);
      }
    }
  }
}

TEST(PartOfAVector, ReadsNoOtherBytes) {
  check_part<float>("avx2", ElemType::f32, 8);
  check_part<int8_t>("avx2", ElemType::i8, 32);
}

TEST(PartOfAVector, ReadsNoOtherBytesUnderMasks) {
  check_part<float>("avx512", ElemType::f32, 16);
  check_part<int8_t>("avx512", ElemType::i8, 64);
  check_part<int16_t>("avx512", ElemType::i16, 16);
}

}  // namespace
}  // namespace tilewright
