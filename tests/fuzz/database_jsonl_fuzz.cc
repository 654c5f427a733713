// Database exports, one JSON object per line, whose rows are imported and read.
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/base64.h"
#include "database/tables/row.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_store.h"

namespace tilewright::fuzz {
namespace {

using Json = nlohmann::ordered_json;
using namespace database;

Blob blob_of(const std::string& bytes) {
  auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return Blob(first, first + bytes.size());
}

Cell cell_of(const Json& json, ColumnType type) {
  switch (type) {
    case ColumnType::Integer: return json.get<int64_t>();
    case ColumnType::Real: return json.get<double>();
    case ColumnType::Text: return json.get<std::string>();
    case ColumnType::Doubles: {
      auto values = json.get<std::vector<double>>();
      return blob_of({reinterpret_cast<const char*>(values.data()), values.size() * 8});
    }
    default: return blob_of(from_base64(json.get<std::string>()).value());
  }
}

// The line with a valid checksum for its row, as a forger would write it. Returns the line itself
// where it is no row.
std::string with_right_checksum(const std::string& text) {
  try {
    Json line = Json::parse(text);
    const Table& table = table_named(line.at("table").get<std::string>());
    Row row;
    for (const Column& column : table.columns) {
      row.push_back(cell_of(line.at(column.name), column.type));
    }
    line["checksum"] = row_checksum(table, kSchemaVersion, row);
    return line.dump();
  } catch (const std::exception&) {
    return text;
  }
}

void import(const std::string& text) {
  // Creating the tables takes longer than all else, so one store serves all inputs and is left
  // unchanged.
  static Store store = Store::open_in_memory();
  Transaction taken_back = store.begin();
  std::istringstream in(text);
  try {
    store.import_jsonl(in);
    read_store(store);
  } catch (const DatabaseError&) {
  } catch (const RecordError&) {
  }
}

}  // namespace

std::vector<std::string> seed_inputs() {
  Store store = Store::open_in_memory();
  fill_store(store);
  std::ostringstream out;
  store.export_jsonl(out);
  // Adds each table's rows alone, too, so that inputs are small.
  std::vector<std::string> texts = {out.str()};
  std::istringstream in(out.str());
  std::string header, line;
  std::getline(in, header);
  while (std::getline(in, line)) texts.push_back(header + "\n" + line + "\n");
  return texts;
}

}  // namespace tilewright::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilewright::fuzz;
  std::string text(text_of(data, size)), forged, line;
  import(text);
  std::istringstream in(text);
  while (std::getline(in, line)) forged += with_right_checksum(line) + "\n";
  if (forged != text) import(forged);
  return 0;
}
