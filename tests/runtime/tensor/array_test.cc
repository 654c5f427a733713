#include "runtime/tensor/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "runtime/error.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/fences.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

constexpr int64_t kPage = 4096;

using testing::HasSubstr;

TEST(HostArray, IsAlignedAndZeroAndKnowsItsSize) {
  for (int64_t extent : {1, 3, 1000, 3 << 20}) {
    HostArray a("A", ElemType::f32, {extent, 2});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
    EXPECT_EQ(a.bytes(), extent * 8);
    EXPECT_EQ(a.get(0), 0);
    EXPECT_EQ(a.get(a.count() - 1), 0);
    EXPECT_FALSE(a.guard_fault());
  }
  EXPECT_EQ(HostArray("s", ElemType::u4, {5}).bytes(), 3);
}

TEST(HostArray, NamesTheByteWrittenPastTheEnd) {
  HostArray a("C", ElemType::f32, {10});
  static_cast<unsigned char*>(a.data())[40 + 7] ^= 1;
  auto fault = a.guard_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->past_end, 7);
  EXPECT_EQ(fault->from_begin, 47);
  EXPECT_THAT(fault->message, HasSubstr("7 bytes past the end of 'C' (40 bytes)"));
  a.restore_guards();
  EXPECT_FALSE(a.guard_fault());
}

TEST(HostArray, NamesTheByteWrittenBeforeTheStart) {
  HostArray a("C", ElemType::f32, {10}, HostArray::Place::BeforeFence);
  static_cast<unsigned char*>(a.data())[-4] ^= 1;
  auto fault = a.guard_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->from_begin, -4);
  EXPECT_THAT(fault->message, HasSubstr("4 bytes before the start of 'C'"));
}

TEST(HostArray, EveryGuardByteIsWatched) {
  auto watched = [](HostArray& a, int64_t at) {
    auto* bytes = static_cast<unsigned char*>(a.data());
    bytes[at] = static_cast<unsigned char>(~bytes[at]);
    const bool seen = a.guard_fault().has_value();
    bytes[at] = static_cast<unsigned char>(~bytes[at]);
    return seen;
  };
  HostArray after("C", ElemType::i8, {3});
  for (int64_t i = 3; i < kPage; ++i) EXPECT_TRUE(watched(after, i)) << i;
  HostArray before("C", ElemType::i8, {3}, HostArray::Place::BeforeFence);
  for (int64_t i = 3; i < 64; ++i) EXPECT_TRUE(watched(before, i)) << i;
  for (int64_t i = 1; i <= kPage - 64; ++i) EXPECT_TRUE(watched(before, -i)) << i;
}

// An access beyond the guards ends the process and says whose array it missed.
TEST(HostArrayDeath, FaultsAreNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto touch = [](HostArray::Place place, int64_t at, bool write) {
    name_faults();
    HostArray a("A", ElemType::f32, {1024}, place);
    volatile char* byte = static_cast<char*>(a.data()) + at;
    if (write) {
      *byte = 1;
    } else {
      [[maybe_unused]] char value = *byte;
    }
  };
  using enum HostArray::Place;
  EXPECT_DEATH(touch(AfterFence, -1, false), "read 1 bytes before the start of 'A' .4096 bytes");
  EXPECT_DEATH(touch(AfterFence, -kPage * 3, true), "write 12288 bytes before the start of 'A'");
  EXPECT_DEATH(touch(BeforeFence, 4096, true), "write 0 bytes past the end of 'A'");
  EXPECT_DEATH(touch(BeforeFence, 4096 + (1 << 20), false), "read 1048576 bytes past the end");
}

TEST(HostArrayDeath, ProtectedArraysAreNotWritten) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto write = [] {
    name_faults();
    HostArray a("A", ElemType::f32, {16});
    a.protect(true);
    a.set(3, 1);
  };
  EXPECT_DEATH(write(), "write to byte 12 of 'A', which is read-only");
  HostArray a("A", ElemType::f32, {16});
  a.protect(true);
  a.protect(false);
  a.set(3, 1);
  EXPECT_EQ(a.get(3), 1);
}

TEST(Fences, TheLastNamedFaultIsFoundInWhatAProcessWrote) {
  EXPECT_EQ(named_fault("something\ntilewright-fence: read 4 bytes past the end of 'A'\nmore"),
            "read 4 bytes past the end of 'A'");
  EXPECT_FALSE(named_fault("Segmentation fault"));
}

TEST(HostArray, GuardsReadAsNaN) {
  for (ElemType elem : {ElemType::f64, ElemType::f32, ElemType::f16, ElemType::bf16}) {
    HostArray a("A", elem, {16}), b("A", elem, {16}, HostArray::Place::BeforeFence);
    for (int64_t i = 16; i < 500; ++i) {
      EXPECT_TRUE(std::isnan(load_element(elem, a.data(), i))) << to_string(elem);
      EXPECT_TRUE(std::isnan(load_element(elem, b.data(), 15 - i))) << to_string(elem);
    }
  }
}

// A kernel that copies one element too many moves guard to guard.
TEST(HostArray, GuardsOfTwoArraysDiffer) {
  HostArray a("A", ElemType::f32, {16}), c("C", ElemType::f32, {16});
  std::memcpy(static_cast<char*>(c.data()) + 64, static_cast<char*>(a.data()) + 64, 4);
  EXPECT_TRUE(c.guard_fault());
}

TEST(HostArray, PoisonIsFoundUntilOverwritten) {
  for (ElemType elem : {ElemType::f64, ElemType::f32, ElemType::f16, ElemType::bf16, ElemType::i32,
                        ElemType::i8, ElemType::f8e4m3}) {
    HostArray a("C", elem, {100});
    a.poison();
    EXPECT_EQ(a.poisoned(HostArray::Poison::First, 1000).size(), 100u) << to_string(elem);
    for (int64_t i = 0; i < 100; ++i) {
      if (i != 57) a.set(i, 1);
    }
    EXPECT_EQ(a.poisoned(HostArray::Poison::First, 1000), std::vector<int64_t>{57});
    EXPECT_FALSE(a.guard_fault());
  }
}

TEST(HostArray, PoisonOfWideFloatsIsNoOrdinaryNaN) {
  for (ElemType elem : {ElemType::f64, ElemType::f32, ElemType::f16, ElemType::bf16}) {
    HostArray a("C", elem, {4});
    a.poison();
    EXPECT_TRUE(a.poison_is_proof());
    EXPECT_TRUE(std::isnan(a.get(2)));
    for (int64_t i = 0; i < 4; ++i) a.set(i, std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(a.poisoned().empty()) << to_string(elem);
  }
}

TEST(HostArray, NarrowTypesNeedBothPoisons) {
  HostArray a("C", ElemType::i8, {4});
  EXPECT_FALSE(a.poison_is_proof());
  a.poison(HostArray::Poison::Second);
  EXPECT_TRUE(a.poisoned(HostArray::Poison::First).empty());
  EXPECT_EQ(a.poisoned(HostArray::Poison::Second, 9).size(), 4u);
}

TEST(HostArray, HashChangesWithAnyElement) {
  HostArray a("A", ElemType::f32, {64});
  a.fill(SeededValues(1, "A", ElemType::f32));
  uint64_t before = a.hash();
  a.set(63, 0.5);
  EXPECT_NE(a.hash(), before);
}

TEST(HostArray, HashLeavesOutBitsBehindTheLastElement) {
  HostArray a("A", ElemType::u2, {5});
  for (int64_t i = 0; i < 5; ++i) a.set(i, 1);
  const uint64_t before = a.hash();
  static_cast<unsigned char*>(a.data())[1] ^= 0xfc;
  EXPECT_EQ(a.hash(), before);
  a.set(4, 2);
  EXPECT_NE(a.hash(), before);
}

TEST(HostArray, RefusesShapesThatAreNone) {
  EXPECT_THAT(test::error_of<Error>([] {
                HostArray("A", ElemType::f32, {4, 0});
              }),
              HasSubstr("array 'A': extent 0 in shape [4, 0]"));
  EXPECT_THAT(test::error_of<Error>([] {
                HostArray("A", ElemType::f32, {int64_t{1} << 40, int64_t{1} << 40});
              }),
              HasSubstr("overflows 64 bits"));
  EXPECT_THAT(
      test::error_of<MemoryError>([] { HostArray("A", ElemType::f32, {int64_t{1} << 60}); }),
      HasSubstr("larger than any memory"));
  EXPECT_THAT(
      test::error_of<MemoryError>([] { HostArray("A", ElemType::f32, {int64_t{1} << 50}); }),
      HasSubstr("array 'A': no memory"));
}

// Large blocks are used again: their old contents do not show, and neither do their old bounds.
TEST(HostArray, StartsAsZerosWhereAnotherOneWas) {
  constexpr int64_t kCount = 5 << 20;
  const void* place = nullptr;
  {
    HostArray first("first", ElemType::u8, {kCount});
    std::memset(first.data(), 7, kCount);
    place = first.data();
  }
  HostArray second("second", ElemType::u8, {kCount - 5000}, HostArray::Place::BeforeFence);
  const auto* data = static_cast<const unsigned char*>(second.data());
  EXPECT_LT(std::abs(data - static_cast<const unsigned char*>(place)), 1 << 14) << "the same block";
  for (int64_t i = 0; i < second.count(); i += 997) ASSERT_EQ(data[i], 0) << i;
  EXPECT_FALSE(second.guard_fault());
  EXPECT_DEATH(std::memset(second.data(), 1, static_cast<size_t>(second.count()) + 4096), "");
}

TEST(HostArray, MayStartPoisoned) {
  HostArray array("a", ElemType::f32, {100}, HostArray::Place::AfterFence,
                  HostArray::Contents::Poison);
  EXPECT_EQ(array.poisoned(HostArray::Poison::First, 1000).size(), 100u);
}

}  // namespace
}  // namespace tilewright
