// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/sdsc_arguments.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <set>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/data_type_option.hpp"
#include "host_driver/cli/op_problem.hpp"
#include "host_driver/tensor/stickify.hpp"

namespace cli {

namespace {

using svp::DataType;
using svp::HostShape;
using svp::SpyreTensorLayout;

constexpr const char* kShapeExample = "write --as 1=float16:64x128";

std::string name_of(std::size_t argument) { return fmt::format("argument {}", argument); }

std::optional<std::size_t> number_of(std::string_view digits) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return {};
  return number;
}

// The format in which all operations that use the argument take it; empty: they do not agree.
std::optional<svp::DeviceType> format_of(const svp::DeviceProgram& program, std::size_t argument) {
  std::set<wire::program::Format> formats;
  for (std::uint32_t i = 0; i < program.header().operation_count; ++i) {
    const wire::program::Operation operation = program.operation(i);
    for (unsigned o = 0; o < operation.operand_count; ++o) {
      const wire::program::Operand& operand = operation.operand[o];
      if (operand.base == wire::program::Base::Argument && operand.argument == argument) formats.insert(operand.format);
    }
  }
  if (formats.size() != 1) return {};
  return static_cast<svp::DeviceType>(*formats.begin());  // numbered alike
}

struct TensorPlace {
  HostShape shape;
  SpyreTensorLayout layout;
};
TensorPlace place_of(const svp::DeviceProgram& program, std::size_t argument, const ArgumentShape& shape) {
  HostShape host = HostShape::contiguous(shape.dtype, shape.size);
  SpyreTensorLayout layout = SpyreTensorLayout::of(host, std::nullopt, format_of(program, argument));
  return {.shape = std::move(host), .layout = std::move(layout)};
}

}  // namespace

ArgumentFile parse_argument_file(const char* option, std::string_view text) {
  const std::size_t equals = text.find('=');
  const auto number = equals == std::string_view::npos ? std::nullopt : number_of(text.substr(0, equals));
  if (!number || equals + 1 == text.size()) {
    throw svp::InvalidArgument(option, fmt::format("'{}' is no NUMBER=FILE", text),
                               fmt::format("write {} 0=x.npy", option));
  }
  return {.argument = *number, .file = std::string(text.substr(equals + 1))};
}

ArgumentShapeOption parse_argument_shape(std::string_view text) {
  const std::size_t equals = text.find('='), colon = text.find(':');
  const auto number = equals == std::string_view::npos ? std::nullopt : number_of(text.substr(0, equals));
  if (!number || colon == std::string_view::npos || colon < equals) {
    throw svp::InvalidArgument("--as", fmt::format("'{}' is no NUMBER=TYPE:EXTENTS", text), kShapeExample);
  }
  return {.argument = *number,
          .shape = {.dtype = parse_data_type("--as", text.substr(equals + 1, colon - equals - 1)),
                    .size = parse_extents(std::string(text.substr(colon + 1)))}};
}

std::vector<std::byte> device_bytes(const svp::DeviceProgram& program, std::size_t argument, const NpyArray& array) {
  std::vector<std::byte> bytes;
  if (array.dtype == DataType::Uint8) {
    bytes = array.bytes;
    if (bytes.size() % spyre::kBytesPerStick != 0) {
      throw svp::InvalidArgument(
          name_of(argument), fmt::format("{} has {} bytes, no whole sticks of 128", name_of(argument), bytes.size()),
          "give an array of uint8 with the bytes of whole sticks, or a tensor of another type");
    }
  } else {
    const TensorPlace place = place_of(program, argument, {.dtype = array.dtype, .size = array.size});
    bytes.resize(place.layout.device_bytes());
    svp::stickify(place.shape, array.bytes, place.layout, bytes);
  }
  return bytes;
}

void require_bytes(const svp::DeviceProgram& program, std::size_t argument, std::uint64_t bytes) {
  const std::uint64_t needed = program.arguments()[argument].bytes;
  if (bytes >= needed) return;
  throw svp::InvalidArgument(
      name_of(argument),
      fmt::format("{} needs {} bytes, its array has {} on the card", name_of(argument), needed, bytes),
      "give the tensor that the bundle was compiled for (spyre sdsc explain names its extents)");
}

NpyArray host_array(const svp::DeviceProgram& program, std::size_t argument, const ArgumentShape& shape,
                    const std::vector<std::byte>& bytes) {
  if (shape.raw()) {
    return {.dtype = DataType::Uint8, .size = {static_cast<std::int64_t>(bytes.size())}, .bytes = bytes};
  }
  const TensorPlace place = place_of(program, argument, shape);
  if (place.layout.device_bytes() > bytes.size()) {
    throw svp::InvalidArgument(name_of(argument),
                               fmt::format("{} has {} bytes, --as names a tensor of {}", name_of(argument),
                                           bytes.size(), place.layout.device_bytes()),
                               "name the tensor that the bundle writes (spyre sdsc explain names its extents)");
  }
  NpyArray array{.dtype = shape.dtype, .size = shape.size, .bytes = {}};
  array.bytes.resize(place.shape.bytes_spanned());
  svp::unstickify(place.layout, std::span(bytes).first(place.layout.device_bytes()), place.shape, array.bytes);
  return array;
}

}  // namespace cli
