// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/npy_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "host_driver/base/error.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace cli {
namespace {

using svp::DataType;
using testing::HasSubstr;

// A file as NumPy writes it, with any header.
std::vector<std::byte> file_of(const std::string& header, std::size_t element_bytes, char version = 1) {
  std::string text("\x93NUMPY", 6);
  text += {version, '\0'};
  const auto length = [&](unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  };
  length(version == 1 ? 2 : 4);
  text += header;
  text.append(element_bytes, '\x2A');
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string refusal_of(const std::vector<std::byte>& content) {
  try {
    (void)parse_npy(content);
    ADD_FAILURE() << "not refused";
  } catch (const svp::InvalidArgument& refused) {
    EXPECT_EQ(refused.field(), "file");
    EXPECT_FALSE(refused.info().next_step.empty());
    return refused.info().message;
  }
  return {};
}

TEST(NpyFile, WhatIsWrittenIsRead) {
  const qemu::test::TemporaryFolder folder;
  const std::vector<std::vector<std::int64_t>> sizes{{}, {0}, {7}, {3, 5}, {2, 3, 1, 4}};
  for (const DataType dtype : {DataType::Float16, DataType::Float32, DataType::Float64, DataType::Int8, DataType::Uint8,
                               DataType::Int16, DataType::Int32, DataType::Int64, DataType::Bool}) {
    for (const auto& size : sizes) {
      NpyArray array{.dtype = dtype, .size = size, .bytes = {}};
      std::size_t elements = 1;
      for (const std::int64_t extent : size) elements *= static_cast<std::size_t>(extent);
      for (std::size_t i = 0; i < elements * svp::item_bytes(dtype); ++i) array.bytes.push_back(std::byte(i));
      write_npy(folder.path() / "x.npy", array);
      const NpyArray read = read_npy(folder.path() / "x.npy");
      EXPECT_EQ(read.dtype, dtype);
      EXPECT_EQ(read.size, size);
      EXPECT_EQ(read.bytes, array.bytes);
    }
  }
}

// numpy.lib.format: magic, version, length of the header, and the elements at a multiple of 64.
TEST(NpyFile, IsTheFormatOfNumPy) {
  const auto content = npy_of({.dtype = DataType::Float16, .size = {2, 3}, .bytes = std::vector<std::byte>(12)});
  const std::string text(reinterpret_cast<const char*>(content.data()), content.size());
  EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_THAT(text, HasSubstr("{'descr': '<f2', 'fortran_order': False, 'shape': (2,3,), }"));
  EXPECT_EQ(content.size() - 12, 128u);
  EXPECT_EQ(text[127], '\n');
}

TEST(NpyFile, HeadersMayBeWrittenOtherwise) {
  for (const char version : {'\1', '\2', '\3'}) {
    const NpyArray array =
        parse_npy(file_of("{'shape':(2, 3) , 'descr' :'<i4','fortran_order': False}   \n", 24, version));
    EXPECT_EQ(array.dtype, DataType::Int32);
    EXPECT_EQ(array.size, (std::vector<std::int64_t>{2, 3}));
  }
}

TEST(NpyFile, WhatIsNoneIsRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
  EXPECT_EQ(parse_npy(file_of(good, 16)).size, std::vector<std::int64_t>{4});
  EXPECT_THAT(refusal_of({}), HasSubstr("no array of NumPy"));
  EXPECT_THAT(refusal_of(file_of(good, 16, 4)), HasSubstr("format 4.0"));
  EXPECT_THAT(refusal_of(file_of(good, 15)), HasSubstr("it has 15 bytes of elements, its shape needs 16"));
  EXPECT_THAT(refusal_of(file_of(good, 17)), HasSubstr("it has 17 bytes of elements"));
  auto cut = file_of(good, 0);
  cut.resize(30);
  EXPECT_THAT(refusal_of(cut), HasSubstr("cut short"));
  EXPECT_THAT(refusal_of(file_of("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", 16)), HasSubstr("'<c8'"));
  EXPECT_THAT(refusal_of(file_of("{'descr': '>f4', 'fortran_order': False, 'shape': (4,), }", 16)), HasSubstr("'>f4'"));
  EXPECT_THAT(refusal_of(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (4,), }", 16)),
              HasSubstr("column-major"));
  EXPECT_THAT(
      refusal_of(file_of(
          "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904), }", 16)),
      HasSubstr("more than a file may have"));
}

// Each is a dictionary that something is wrong with.
TEST(NpyFile, HeadersThatNumPyDoesNotWriteAreRefused) {
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (4,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': 4}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '<f4', 'fortran_order': False, 'more': (4,)}",
        "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} more"}) {
    SCOPED_TRACE(header);
    EXPECT_THAT(refusal_of(file_of(header, 16)), HasSubstr("header"));
  }
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) deep += "1,";
  EXPECT_THAT(refusal_of(file_of(deep + ")}", 4)), HasSubstr("header"));
}

TEST(NpyFile, AFileThatCannotBeReadIsNamed) {
  try {
    (void)read_npy("/there/is/none.npy");
    FAIL() << "not refused";
  } catch (const svp::InvalidArgument& refused) {
    EXPECT_THAT(refused.info().message, HasSubstr("none.npy"));
    EXPECT_THAT(refused.info().next_step, HasSubstr("numpy.save()"));
  }
}

TEST(NpyFile, TypesThatNumPyHasNotAreNotWritten) {
  EXPECT_THROW((void)npy_of({.dtype = DataType::BFloat16, .size = {1}, .bytes = std::vector<std::byte>(2)}),
               svp::InvalidArgument);
}

}  // namespace
}  // namespace cli
