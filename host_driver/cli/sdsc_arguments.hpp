// SPDX-License-Identifier: Apache-2.0
// Arrays in files as the arguments of a compiled bundle, and back. An array of uint8 is the bytes of the argument as
// they lie on the card; any other is a tensor of the host, which lies there in the layout that torch-spyre gives it by
// default, in the format in which the program reads the argument.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/cli/npy_file.hpp"
#include "host_driver/program/device_program.hpp"

namespace cli {

// "2=result.npy". Throws InvalidArgument naming `option`.
struct ArgumentFile {
  std::size_t argument = 0;
  std::string file;
};
ArgumentFile parse_argument_file(const char* option, std::string_view text);

// What an argument is to the host: type and shape of an array.
struct ArgumentShape {
  svp::DataType dtype = svp::DataType::Uint8;
  std::vector<std::int64_t> size;

  bool raw() const { return dtype == svp::DataType::Uint8; }
};

// "1=float16:64x128". Throws InvalidArgument ("--as").
struct ArgumentShapeOption {
  std::size_t argument = 0;
  ArgumentShape shape;
};
ArgumentShapeOption parse_argument_shape(std::string_view text);

// The memory of one argument, whole sticks. Throw InvalidArgument ("argument 1") when the array's type cannot be
// converted, and when the program needs more bytes.
std::vector<std::byte> device_bytes(const svp::DeviceProgram& program, std::size_t argument, const NpyArray& array);
void require_bytes(const svp::DeviceProgram& program, std::size_t argument, std::uint64_t bytes);
NpyArray host_array(const svp::DeviceProgram& program, std::size_t argument, const ArgumentShape& shape,
                    const std::vector<std::byte>& bytes);

}  // namespace cli
