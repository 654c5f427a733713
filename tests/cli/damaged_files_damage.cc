#include <sqlite3.h>

#include <fstream>
#include <limits>
#include <memory>

#include "tests/cli/damaged_files.h"

namespace tilewright::damaged {
namespace {

constexpr size_t kPage = 4096, kHeader = 100;

using Connection = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

// The texts that a query gives in its first column.
std::vector<std::string> texts(sqlite3* connection, const std::string& query) {
  std::vector<std::string> list;
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(connection, query.c_str(), -1, &statement, nullptr);
  while (statement != nullptr && sqlite3_step(statement) == SQLITE_ROW) {
    const unsigned char* text = sqlite3_column_text(statement, 0);
    list.emplace_back(text == nullptr ? "" : reinterpret_cast<const char*>(text));
  }
  sqlite3_finalize(statement);
  return list;
}

void bind_blob(sqlite3_stmt* statement, const std::string& bytes) {
  sqlite3_bind_blob(statement, 1, bytes.data(), static_cast<int>(bytes.size()), SQLITE_TRANSIENT);
}

void bind_text(sqlite3_stmt* statement, const std::string& text) {
  sqlite3_bind_text(statement, 1, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

void bind_any(sqlite3_stmt* statement, Draw& draw) {
  const std::vector<int64_t> integers = {0, -1, -5, 1, std::numeric_limits<int64_t>::max()};
  const std::vector<double> reals = {1e308, 1e-308, std::numeric_limits<double>::infinity(), 0.5};
  const std::vector<std::string> words = {
      "", std::string(5000, 'x'), std::string("\0\xff", 2), "{}", "[[[", "{\"a\": 1e999}"};
  const std::vector<std::string> blobs = {"", draw.bytes(30),
                                          "\x7f"
                                          "ELF" +
                                              draw.bytes(200)};
  switch (draw.below(5)) {
    case 0: sqlite3_bind_null(statement, 1); break;
    case 1: sqlite3_bind_int64(statement, 1, draw.of(integers)); break;
    case 2: sqlite3_bind_double(statement, 1, draw.of(reals)); break;
    case 3: bind_text(statement, draw.of(words)); break;
    default: bind_blob(statement, draw.of(blobs)); break;
  }
}

// The result of another program's UPDATE: rows whose checksums do not fit.
void change_cell(const fs::path& path, Draw& draw) {
  sqlite3* opened = nullptr;
  sqlite3_open(path.c_str(), &opened);
  const Connection connection(opened, sqlite3_close);
  const std::string table =
      draw.of(texts(opened, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"));
  const std::string column =
      draw.of(texts(opened, "SELECT name FROM pragma_table_info('" + table + "')"));
  std::string update = "UPDATE " + table + " SET \"" + column + "\" = ?";
  if (draw.below(10) >= 3) update += " WHERE rowid = (SELECT min(rowid) FROM " + table + ")";
  sqlite3_stmt* statement = nullptr;
  int status = sqlite3_prepare_v2(opened, update.c_str(), -1, &statement, nullptr);
  if (status == SQLITE_OK) {
    bind_any(statement, draw);
    status = sqlite3_step(statement);
  }
  sqlite3_finalize(statement);
  if (status == SQLITE_DONE) return;
  sqlite3_exec(opened, ("DELETE FROM " + table).c_str(), nullptr, nullptr, nullptr);
}

size_t page(const std::string& data, Draw& draw) { return draw.below(data.size() / kPage) * kPage; }

void flip(std::string& data, Draw& draw) {
  for (int left = draw.of<int>({1, 1, 2, 8, 64}); left > 0; --left) {
    char& byte = data[draw.below(data.size())];
    byte = static_cast<char>(byte ^ (1 << draw.below(8)));
  }
}

void change_bytes(std::string& data, const std::string& kind, Draw& draw) {
  if (kind == "flip") {
    flip(data, draw);
  } else if (kind == "header") {
    data[draw.below(kHeader)] = draw.bytes(1)[0];
  } else if (kind == "cut") {
    data.resize(draw.below(data.size()));
  } else if (kind == "zeros") {
    data.replace(page(data, draw), kPage, std::string(kPage, '\0'));
  } else if (kind == "noise") {
    data.replace(page(data, draw), kPage, draw.bytes(kPage));
  } else if (kind == "copy") {
    const std::string from = data.substr(page(data, draw), kPage);
    data.replace(page(data, draw), kPage, from);
  } else if (kind == "exchange") {
    const size_t one = page(data, draw), other = page(data, draw);
    const std::string kept = data.substr(one, kPage);
    data.replace(one, kPage, data.substr(other, kPage));
    data.replace(other, kPage, kept);
  } else {
    const std::string scribble = draw.bytes(draw.of<size_t>({4, 32, 500}));
    data.replace(draw.below(data.size() - scribble.size()), scribble.size(), scribble);
  }
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

std::string Draw::bytes(size_t count) {
  std::string result(count, '\0');
  for (char& byte : result) byte = static_cast<char>(random_() >> 56);
  return result;
}

std::string damage(const std::string& whole, const fs::path& path, Draw& draw) {
  const uint64_t percent = draw.below(100);
  if (percent < 25) {
    write_bytes(path, whole);
    change_cell(path, draw);
    return "cell";
  }
  const std::string kind = draw.of<std::string>(
      {"flip", "flip", "header", "cut", "zeros", "noise", "copy", "exchange", "scribble"});
  std::string data = whole;
  change_bytes(data, kind, draw);
  write_bytes(path, data);
  if (percent >= 95) {
    write_bytes(path.string() + "-journal", draw.bytes(draw.of<size_t>({1, 600, 5000})));
  }
  return kind;
}

}  // namespace tilewright::damaged
