// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/npy_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/spyrecode/directory.hpp"

namespace cli {

namespace {

using svp::DataType;

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::size_t kMostHeaderBytes = 65536;
constexpr std::size_t kMostRank = 64;
// numpy.save() makes headers end at a multiple of this.
constexpr std::size_t kHeaderAlignment = 64;

struct Name {
  DataType dtype;
  std::string_view descr;
};
constexpr std::array kNames{
    Name{DataType::Float16, "<f2"}, Name{DataType::Float32, "<f4"}, Name{DataType::Float64, "<f8"},
    Name{DataType::Int8, "|i1"},    Name{DataType::Uint8, "|u1"},   Name{DataType::Int16, "<i2"},
    Name{DataType::Int32, "<i4"},   Name{DataType::Int64, "<i8"},   Name{DataType::Bool, "|b1"},
};

[[noreturn]] void refuse(const std::string& what, std::string next_step = "write it with numpy.save()") {
  throw svp::InvalidArgument("file", what, std::move(next_step));
}

// The literal of a Python dictionary that stands in front of the elements.
class Header {
 public:
  explicit Header(std::string_view text) : rest_(text) { parse(); }

  DataType dtype() const {
    const auto* found = std::ranges::find(kNames, std::string_view(descr_.value()), &Name::descr);
    if (found != kNames.end()) return found->dtype;
    refuse(fmt::format("its elements are of the type '{}'", *descr_),
           "convert it: array.astype(numpy.float16), float32, float64, int8, uint8, int16, int32, int64 or bool");
  }
  const std::vector<std::int64_t>& size() const { return *size_; }

 private:
  void parse() {
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        set(descr_, string());
      } else if (key == "fortran_order") {
        set(fortran_, truth());
      } else if (key == "shape") {
        set(size_, tuple());
      } else {
        fail();
      }
      if (!take(',') && peek() != '}') fail();
    }
    if (!descr_ || !fortran_ || !size_ || peek() != '\0') fail();
    if (*fortran_) refuse("it is column-major", "save numpy.ascontiguousarray(array)");
  }
  template <typename T>
  void set(std::optional<T>& member, T value) {
    if (member) fail();
    member = std::move(value);
  }
  [[noreturn]] static void fail() { refuse("its header is not one that NumPy writes"); }

  char peek() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool take(char c) {
    if (peek() != c || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }
  std::string string() {
    expect('\'');
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos || end > 64) fail();
    std::string text(rest_.substr(0, end));
    if (std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; })) fail();
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    (void)peek();
    for (const auto& [word, value] : {std::pair{std::string_view("False"), false}, {std::string_view("True"), true}}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail();
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> numbers;
    expect('(');
    while (!take(')')) {
      (void)peek();
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
      if (error != std::errc{} || number < 0 || numbers.size() == kMostRank) fail();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      numbers.push_back(number);
      if (!take(',') && peek() != ')') fail();
    }
    return numbers;
  }

  std::string_view rest_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::int64_t>> size_;
};

// Empty: more than a file holds.
std::optional<std::uint64_t> bytes_of(DataType dtype, const std::vector<std::int64_t>& size) {
  std::uint64_t bytes = svp::item_bytes(dtype);
  for (const std::int64_t extent : size) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || bytes > kMostNpyBytes) return {};
  }
  return bytes;
}

// Where the dictionary begins, and its length.
std::pair<std::size_t, std::size_t> header_of(std::span<const std::byte> content) {
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  if (!text.starts_with(kMagic) || text.size() < 10) refuse("it is no array of NumPy");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) refuse(fmt::format("it has the format {}.{}", version, byte(7)));
  if (version == 1) return {10, byte(8) | byte(9) << 8};
  if (text.size() < 12) refuse("it is no array of NumPy");
  return {12, byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24};
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> content) {
  const auto [start, length] = header_of(content);
  if (length > kMostHeaderBytes || length > content.size() - start) refuse("its header is cut short");
  const auto text = content.subspan(start, length);
  const Header header({reinterpret_cast<const char*>(text.data()), text.size()});
  const auto elements = content.subspan(start + length);
  NpyArray array{.dtype = header.dtype(), .size = header.size(), .bytes = {}};
  const auto bytes = bytes_of(array.dtype, array.size);
  if (!bytes || *bytes != elements.size()) {
    refuse(fmt::format("it has {} bytes of elements, its shape needs {}", elements.size(),
                       bytes ? std::to_string(*bytes) : "more than a file may have"));
  }
  array.bytes.assign(elements.begin(), elements.end());
  return array;
}

NpyArray read_npy(const std::filesystem::path& path) {
  try {
    return parse_npy(svp::spyrecode::read_file(path, kMostNpyBytes + kMostHeaderBytes).bytes);
  } catch (const svp::InvalidPlan& unreadable) {
    throw svp::InvalidArgument("file", unreadable.info().message, "name a file that numpy.save() wrote");
  } catch (const svp::InvalidArgument& refused) {
    throw svp::InvalidArgument("file", path.string() + ": " + refused.info().message, refused.info().next_step);
  }
}

std::vector<std::byte> npy_of(const NpyArray& array) {
  const auto* found = std::ranges::find(kNames, array.dtype, &Name::dtype);
  if (found == kNames.end()) {
    throw svp::InvalidArgument("dtype", fmt::format("NumPy has no {}", svp::name(array.dtype)),
                               "take float16 or float32, or uint8 for the bytes of the card");
  }
  std::string shape;
  for (const std::int64_t extent : array.size) shape += fmt::format("{},", extent);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", found->descr, shape);
  const std::size_t unpadded = kMagic.size() + 4 + text.size() + 1;
  text.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  text += '\n';
  std::string file(kMagic);
  file += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  file += text;
  std::vector<std::byte> content(file.size() + array.bytes.size());
  std::memcpy(content.data(), file.data(), file.size());
  std::ranges::copy(array.bytes, content.begin() + static_cast<std::ptrdiff_t>(file.size()));
  return content;
}

void write_npy(const std::filesystem::path& path, const NpyArray& array) {
  const std::vector<std::byte> content = npy_of(array);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::array files{svp::spyrecode::NamedBytes{.name = path.filename(), .bytes = content}};
  svp::spyrecode::write_files(folder, files);
}

}  // namespace cli
