#include "database/tables/checksum.h"

#include <gtest/gtest.h>

#include "database/record.h"

namespace tilewright::database {
namespace {

Blob bytes_of(std::string_view text) {
  Blob bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

// The published value: databases must have the same meaning on every machine and with every xxHash.
TEST(Checksum, ContentHashIsXxh3OfTheBytes) {
  EXPECT_EQ(content_hash(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Checksum, FieldsDoNotRunIntoEachOther) {
  Canonical a;
  a.text("ab");
  a.text("c");
  Canonical b;
  b.text("a");
  b.text("bc");
  EXPECT_NE(a.checksum(), b.checksum());
}

TEST(Checksum, TypesAreToldApart) {
  Canonical text;
  text.text("abc");
  Canonical blob;
  blob.blob(bytes_of("abc"));
  Canonical integer;
  integer.integer(0);
  Canonical real;
  real.real(0.0);
  EXPECT_NE(text.checksum(), blob.checksum());
  EXPECT_NE(integer.checksum(), real.checksum());
}

TEST(Checksum, NegativeZeroIsZeroBecauseSqliteStoresItSo) {
  Canonical negative;
  negative.real(-0.0);
  Canonical positive;
  positive.real(0.0);
  EXPECT_EQ(negative.checksum(), positive.checksum());
}

}  // namespace
}  // namespace tilewright::database
