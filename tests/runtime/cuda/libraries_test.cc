// The places where a CUDA toolkit is looked for.
#include "runtime/cuda/libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/runtime/support.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Libraries in that folder are loaded into this process.
TEST(Libraries, InstalledToolsAreUsedWhereNobodyElseMayWrite) {
  test::TempDir dir;
  const ScopedEnv xdg("XDG_CACHE_HOME", dir.path());
  const ScopedEnv none("TILEWRIGHT_CUDA", std::nullopt);
  const fs::path folder = fs::path(dir.path()) / "tilewright" / "cuda" / "lib";
  const std::string library = (folder / "libx.so").string();
  EXPECT_THAT(cuda::toolkit_paths({"libx.so"}), Not(Contains(library))) << "there is no folder";
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
  EXPECT_EQ(cuda::toolkit_paths({"libx.so"}).back(), library) << "toolkits come first";
  fs::permissions(folder, fs::perms::owner_all | fs::perms::group_write);
  EXPECT_THAT(cuda::toolkit_paths({"libx.so"}), Not(Contains(library)));
  const fs::path real = fs::path(dir.path()) / "real";
  fs::permissions(folder, fs::perms::owner_all);
  fs::rename(folder, real);
  fs::create_directory_symlink(real, folder);
  EXPECT_THAT(cuda::toolkit_paths({"libx.so"}), Not(Contains(library))) << "a link leads anywhere";
}

TEST(Libraries, ANamedFolderIsTheOnlyOne) {
  {
    const ScopedEnv named("TILEWRIGHT_CUDA", "/toolkit");
    EXPECT_THAT(cuda::toolkit_paths({"libx.so"}),
                ElementsAre("/toolkit/lib64/libx.so", "/toolkit/lib/libx.so", "/toolkit/libx.so"));
  }
  const ScopedEnv off("TILEWRIGHT_CUDA", "off");
  EXPECT_THAT(cuda::toolkit_paths({"libx.so"}), IsEmpty());
}

}  // namespace
}  // namespace tilewright
