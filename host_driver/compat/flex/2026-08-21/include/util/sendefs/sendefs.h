// SPDX-License-Identifier: Apache-2.0
// Number formats by the numbers and names that torch-spyre of 2026-08-21 uses (docs/torch-spyre.md).
#pragma once

#include <stdexcept>
#include <string>
#include <unordered_map>

// Says that a value is none of its enum's, and leaves the calling function.
#define DT_ERROR(text) throw std::runtime_error(text)

#pragma GCC visibility push(default)

enum class DataFormats {
  SEN169_FP16 = 0,
  IEEE_FP32 = 1,
  INVALID = 2,
  SEN143_FP8 = 3,
  SEN152_FP8 = 4,
  SEN153_FP9 = 5,
  SENINT2 = 6,
  SENINT4 = 7,
  SENINT8 = 8,
  SENINT16 = 9,
  SENINT24 = 10,
  IEEE_INT64 = 11,
  IEEE_INT32 = 12,
  SENUINT32 = 13,
  SENUINT2 = 14,
  IEEE_FP16 = 15,
  BOOL = 16,
  BFLOAT16 = 17,
  SEN18F_FP24 = 18
};

// Elements in a stick of 128 bytes. Formats that the card has no memory format for have no entry.
extern std::unordered_map<DataFormats, int> dataFormatToStickSize;

struct EnumsConversion {
  // "SEN169_FP16"; "INVALID" for a value that is none of the above.
  static std::string dataFormatsToString(DataFormats format);
};

#pragma GCC visibility pop
