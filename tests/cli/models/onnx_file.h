// Writes ONNX models for tests: the messages in the wire format of protocol buffers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tilewright::test {

// A message in the making.
class WireText {
 public:
  WireText& number(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  WireText& bytes(int field, const std::string& value) {
    tag(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  WireText& real(int field, float value) {
    tag(field, 5);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void tag(int field, int type) {
    varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
  }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

// ONNX's numbers of element types.
enum OnnxType : int { kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kFloat16 = 10 };

inline std::string tensor_text(const std::string& name, int type, const std::vector<int64_t>& shape,
                               const std::string& raw) {
  WireText t;
  for (int64_t d : shape) t.number(1, d);
  t.number(2, type).bytes(8, name).bytes(9, raw);
  return t.text();
}

template <class T>
std::string raw_text(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// An attribute as the text of its message.
inline std::string whole(const std::string& name, int64_t value) {
  return WireText().bytes(1, name).number(3, value).number(20, 2).text();
}
inline std::string real(const std::string& name, float value) {
  return WireText().bytes(1, name).real(2, value).number(20, 1).text();
}
inline std::string words(const std::string& name, const std::string& value) {
  return WireText().bytes(1, name).bytes(4, value).number(20, 3).text();
}
inline std::string texts(const std::string& name, const std::vector<std::string>& values) {
  WireText a;
  a.bytes(1, name);
  for (const std::string& v : values) a.bytes(9, v);
  return a.number(20, 8).text();
}
inline std::string wholes(const std::string& name, const std::vector<int64_t>& values) {
  WireText a;
  a.bytes(1, name);
  for (int64_t v : values) a.number(8, v);
  return a.number(20, 7).text();
}

using OnnxSize = std::variant<int64_t, std::string>;
using OnnxShape = std::vector<OnnxSize>;

class OnnxFile {
 public:
  explicit OnnxFile(int64_t opset = 17) : opset_(opset) {}

  OnnxFile& input(const std::string& name, const OnnxShape& shape, int type = kFloat) {
    graph_.bytes(11, value(name, shape, type));
    return *this;
  }
  OnnxFile& output(const std::string& name) {
    graph_.bytes(12, WireText().bytes(1, name).text());
    return *this;
  }
  // A model's note (value_info) on an inner value.
  OnnxFile& note(const std::string& name, const OnnxShape& shape, int type = kFloat) {
    graph_.bytes(13, value(name, shape, type));
    return *this;
  }
  OnnxFile& constant(const std::string& name, int type, const std::vector<int64_t>& shape,
                     const std::string& raw) {
    graph_.bytes(5, tensor_text(name, type, shape, raw));
    return *this;
  }
  // One whose data lie in another file: `place` has the keys that say where.
  OnnxFile& external(const std::string& name, int type, const std::vector<int64_t>& shape,
                     const std::vector<std::pair<std::string, std::string>>& place) {
    WireText t;
    for (int64_t d : shape) t.number(1, d);
    t.number(2, type).bytes(8, name);
    for (const auto& [key, value] : place) {
      t.bytes(13, WireText().bytes(1, key).bytes(2, value).text());
    }
    graph_.bytes(5, t.number(14, 1).text());
    return *this;
  }
  OnnxFile& floats(const std::string& name, const std::vector<int64_t>& shape,
                   const std::vector<float>& values) {
    return constant(name, kFloat, shape, raw_text(values));
  }
  // A weight of which only the shape counts.
  OnnxFile& weight(const std::string& name, const std::vector<int64_t>& shape) {
    size_t count = 1;
    for (int64_t d : shape) count *= static_cast<size_t>(d);
    return floats(name, shape, std::vector<float>(count, 0.5f));
  }
  OnnxFile& integers(const std::string& name, const std::vector<int64_t>& values) {
    return constant(name, kInt64, {static_cast<int64_t>(values.size())}, raw_text(values));
  }
  OnnxFile& number(const std::string& name, float value) { return floats(name, {}, {value}); }
  OnnxFile& node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs,
                 const std::vector<std::string>& attributes = {}, const std::string& domain = "") {
    WireText n;
    for (const std::string& name : inputs) n.bytes(1, name);
    for (const std::string& name : outputs) n.bytes(2, name);
    n.bytes(3, outputs.empty() ? op : "make_" + outputs[0]).bytes(4, op);
    for (const std::string& attribute : attributes) n.bytes(5, attribute);
    if (!domain.empty()) n.bytes(7, domain);
    graph_.bytes(1, n.text());
    return *this;
  }

  // The graph alone, as an attribute of a node in another one's.
  std::string as_attribute(const std::string& name) const {
    return WireText().bytes(1, name).bytes(6, graph_.text()).number(20, 5).text();
  }
  std::string bytes() const {
    return WireText()
        .number(1, 8)
        .bytes(2, "a test")
        .bytes(7, graph_.text())
        .bytes(8, WireText().bytes(1, "").number(2, opset_).text())
        .bytes(8, WireText().bytes(1, "com.microsoft").number(2, 1).text())
        .text();
  }

 private:
  static std::string value(const std::string& name, const OnnxShape& shape, int type) {
    WireText sizes;
    for (const OnnxSize& size : shape) {
      WireText dim;
      if (const auto* number = std::get_if<int64_t>(&size)) dim.number(1, *number);
      if (const auto* symbol = std::get_if<std::string>(&size)) {
        if (!symbol->empty()) dim.bytes(2, *symbol);
      }
      sizes.bytes(1, dim.text());
    }
    std::string tensor = WireText().number(1, type).bytes(2, sizes.text()).text();
    return WireText().bytes(1, name).bytes(2, WireText().bytes(1, tensor).text()).text();
  }

  int64_t opset_;
  WireText graph_;
};

}  // namespace tilewright::test
