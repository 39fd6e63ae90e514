// SPDX-License-Identifier: Apache-2.0
// Reads the metadata file that the kernel build writes beside an image (firmware/kernels/tools/pack_image.cpp).
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "host_driver/runtime/kernel.hpp"

namespace svp {
namespace {

// "kernel::compute(wire::KernelArguments const&)", mangled or not → "kernel::compute"; a plain name stays.
std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  std::string text = status == 0 && name != nullptr ? std::string(name.get()) : symbol;
  const std::string anonymous = "(anonymous namespace)::";
  for (auto at = text.find(anonymous); at != std::string::npos; at = text.find(anonymous)) {
    text.erase(at, anonymous.size());
  }
  return text.substr(0, text.find('('));
}

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& field, const std::string& what) {
  throw InvalidArgument("metadata." + field, "kernel metadata: " + field + " " + what,
                        "build the kernel again with this version's kernel build");
}

std::string path_of(const std::string& path, const char* key) { return path.empty() ? key : path + "." + key; }

// A member of an object, with the path that errors name.
const Json& member(const Json& object, const std::string& path, const char* key) {
  const std::string field = path_of(path, key);
  if (!object.is_object()) refuse(path.empty() ? "file" : path, "is not an object");
  const auto found = object.find(key);
  if (found == object.end()) refuse(field, "is missing");
  return *found;
}

std::string text(const Json& object, const std::string& path, const char* key) {
  const Json& value = member(object, path, key);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) refuse(path_of(path, key), "is not a name");
  return value.get<std::string>();
}

std::uint64_t number(const Json& object, const std::string& path, const char* key) {
  const Json& value = member(object, path, key);
  if (!value.is_number_unsigned()) refuse(path_of(path, key), "is not a non-negative integer");
  return value.get<std::uint64_t>();
}

const Json& list(const Json& object, const std::string& path, const char* key, std::size_t limit) {
  const Json& value = member(object, path, key);
  if (!value.is_array()) refuse(path_of(path, key), "is not a list");
  if (value.size() > limit) refuse(path_of(path, key), "has more than " + std::to_string(limit) + " entries");
  return value;
}

template <typename T>
T choice(const std::string& word, const std::string& field, std::initializer_list<std::pair<const char*, T>> known) {
  for (const auto& [name, value] : known) {
    if (word == name) return value;
  }
  refuse(field, "has the unknown value '" + word + "'");
}

std::uint32_t dimension_index(KernelMetadata& metadata, const std::string& name, const std::string& field) {
  auto& names = metadata.dimensions;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::uint32_t>(found - names.begin());
  if (names.size() == kMaxDimensions)
    refuse(field, "brings more than " + std::to_string(kMaxDimensions) + " dimensions");
  names.push_back(name);
  return static_cast<std::uint32_t>(names.size() - 1);
}

void read_operand(const Json& json, const std::string& path, KernelMetadata& metadata) {
  KernelOperand operand;
  operand.name = text(json, path, "name");
  operand.access = choice<wire::SegmentAccess>(
      text(json, path, "access"), path + ".access",
      {{"read", wire::kSegmentRead}, {"write", wire::kSegmentWrite}, {"read_write", wire::kSegmentReadWrite}});
  operand.dtype = choice<DeviceType>(text(json, path, "dtype"), path + ".dtype",
                                     {{"dl16", DeviceType::Dl16},
                                      {"fp32", DeviceType::Fp32},
                                      {"int32", DeviceType::Int32},
                                      {"int16", DeviceType::Int16},
                                      {"int8", DeviceType::Int8},
                                      {"uint32", DeviceType::Uint32},
                                      {"fp8e4m3", DeviceType::Fp8E4m3},
                                      {"fp8e5m2", DeviceType::Fp8E5m2}});
  choice<int>(text(json, path, "layout"), path + ".layout", {{"stick", 0}});
  for (const Json& dimension : list(json, path, "shape", Shape::kMaxRank)) {
    if (!dimension.is_string()) refuse(path + ".shape", "has an entry that is not a name");
    operand.shape.push_back(dimension_index(metadata, dimension.get<std::string>(), path + ".shape"));
  }
  metadata.operands.push_back(std::move(operand));
}

void read_symbol(const Json& json, const std::string& path, KernelMetadata& metadata) {
  KernelSymbol symbol;
  symbol.kind = choice<wire::SymbolKind>(text(json, path, "kind"), path + ".kind",
                                         {{"address", wire::SymbolKind::Address},
                                          {"stride", wire::SymbolKind::Stride},
                                          {"dimension", wire::SymbolKind::Dimension},
                                          {"partials", wire::SymbolKind::Partials},
                                          {"pass", wire::SymbolKind::Pass}});
  const std::uint64_t operand = number(json, path, "operand");
  if (operand >= metadata.operands.size()) refuse(path + ".operand", "names no operand");
  symbol.operand = static_cast<std::uint32_t>(operand);
  if (symbol.kind == wire::SymbolKind::Stride || symbol.kind == wire::SymbolKind::Dimension) {
    const auto& shape = metadata.operands[operand].shape;
    const std::string name = text(json, path, "dimension");
    const auto found =
        std::find_if(shape.begin(), shape.end(), [&](std::uint32_t d) { return metadata.dimensions[d] == name; });
    if (found == shape.end()) refuse(path + ".dimension", "'" + name + "' is not one of the operand's");
    symbol.dimension = *found;
    symbol.axis = static_cast<std::uint32_t>(found - shape.begin());
  }
  metadata.symbols.push_back(symbol);
}

std::string item(const char* name, std::size_t index) { return std::string(name) + "[" + std::to_string(index) + "]"; }

}  // namespace

KernelMetadata parse_kernel_metadata(std::string_view json_text) {
  const Json json = Json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) refuse("file", "is not JSON");
  const std::uint64_t format = number(json, "", "format");
  if (format != kKernelMetadataFormat) {
    refuse("format", "is " + std::to_string(format) + ", this driver reads " + std::to_string(kKernelMetadataFormat));
  }
  KernelMetadata metadata;
  metadata.name = text(json, "", "name");
  metadata.image_bytes = number(json, "", "image_bytes");
  metadata.image_crc32c = static_cast<std::uint32_t>(number(json, "", "image_crc32c"));
  std::size_t index = 0;
  for (const Json& operand : list(json, "", "operands", kMaxOperands)) {
    read_operand(operand, item("operands", index++), metadata);
  }
  index = 0;
  for (const Json& symbol : list(json, "", "symbols", wire::kMaxSymbols)) {
    read_symbol(symbol, item("symbols", index++), metadata);
  }
  index = 0;
  for (const Json& function : list(json, "", "functions", 100'000)) {
    const std::string path = item("functions", index++);
    metadata.functions.push_back(
        {readable(text(function, path, "name")), number(function, path, "offset"), number(function, path, "bytes")});
  }
  std::sort(metadata.functions.begin(), metadata.functions.end(),
            [](const KernelFunction& a, const KernelFunction& b) { return a.offset < b.offset; });
  return metadata;
}

}  // namespace svp
