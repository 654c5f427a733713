// Database files: SQLite's header and pages, the schema, and the rows.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_store.h"

namespace tilewright::fuzz {
namespace {

using namespace database;
using namespace database::testing;

// In memory, where the system has such a folder.
const fs::path& file() {
  static const std::string kPath = [] {
    std::string pattern = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    pattern += "/tw_database_fuzz_XXXXXX";
    std::string folder = mkdtemp(pattern.data());
    static const struct Remove {
      std::string folder;
      ~Remove() { fs::remove_all(folder); }
    } remove{folder};
    return folder + "/fuzz.db";
  }();
  static const fs::path kFile = kPath;
  return kFile;
}

void read(Mode mode) {
  try {
    Store store = Store::open(file(), mode);
    read_store(store);
  } catch (const DatabaseError&) {
  }
}

}  // namespace

std::vector<std::string> seed_inputs() {
  TempFolder folder;
  {
    Store store = Store::open(folder / "full.db", Mode::Create);
    fill_store(store);
    store.export_serving(folder / "serving.db");
  }
  return {read_file(folder / "full.db"), read_file(folder / "serving.db")};
}

}  // namespace tilewright::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilewright::fuzz;
  write_file(file(), std::string(text_of(data, size)));
  read(Mode::ReadOnly);
  read(Mode::ReadWrite);
  for (const char* rest : {"-wal", "-shm", "-journal"}) fs::remove(file().string() + rest);
  return 0;
}
