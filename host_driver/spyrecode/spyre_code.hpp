// SPDX-License-Identifier: Apache-2.0
// spyrecode.json (docs/spyrecode.md): what a compiler says of a program, as structures. Every number of the file is a
// text of decimal digits. Members that are not named here are ignored, as other readers of the format do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host_driver/base/error.hpp"

namespace svp::spyrecode {

using spyre::InvalidPlan;

// Addresses of a file are in segment 7, which holds programs: [kProgramBase, kProgramBase + kSegmentBytes).
inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{1} << 34;
inline constexpr std::uint64_t kProgramBase = 7 * kSegmentBytes;
inline constexpr std::uint64_t kAddressAlignment = 128;

inline constexpr const char* kFileName = "spyrecode.json";
inline constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostPreparations = 256;
inline constexpr std::size_t kMostSteps = 256;
inline constexpr std::size_t kMostNameBytes = 255;
inline constexpr std::uint64_t kMostHostBytes = std::uint64_t{1} << 20;  // of a ComputeOnHost
inline constexpr std::size_t kMostExtents = 8;                           // of `ishape`

// `size` bytes of the file `file` (relative to the directory, and inside of it) at `dev_ptr`.
struct InitTransfer {
  std::string file;
  std::uint64_t dev_ptr = 0;
  std::uint64_t size = 0;
};

// Makes the buffer `ohandle` of `size` bytes from the buffer `ihandle` (empty: the addresses of the launch's tensors,
// in order). The product of `ishape` is the number of addresses; 0: none is needed.
struct ComputeOnHost {
  std::string ohandle;
  std::string ihandle;
  std::uint64_t size = 0;
  std::vector<std::uint64_t> ishape;
  std::string hcm;  // JSON of an object: how the bytes are made (hcm.hpp)
};
std::uint64_t address_count(const ComputeOnHost& host);

enum class TransferDirection : std::uint8_t { ToDevice, FromDevice };
struct DataTransfer {
  TransferDirection direction = TransferDirection::ToDevice;
  std::string host_handle;
  std::uint64_t dev_ptr = 0;
  std::uint64_t size = 0;
};

// Runs the binary at `job_bin_ptr`. `name` is for people; it may be empty.
struct ComputeOnDevice {
  std::uint64_t job_bin_ptr = 0;
  std::string name;
};

using ExecStep = std::variant<ComputeOnHost, DataTransfer, ComputeOnDevice>;

struct SpyreCode {
  std::uint64_t allocate_bytes = 0;  // everything that the program has in segment 7, from kProgramBase on
  std::vector<InitTransfer> init;
  std::vector<ExecStep> exec;
};

// Throws InvalidPlan; its field is the path of the member. What holds of the result:
//   * at least one InitTransfer; their ranges lie in the allocation and do not overlap
//   * every address is aligned and lies in the allocation, with all bytes that are moved there
//   * a DataTransfer to the device names a buffer that a ComputeOnHost before it made, moves no more bytes than that
//     has, and touches no range of an InitTransfer
//   * a ComputeOnHost has a new `ohandle`, and an `ihandle` that is known
//   * after a ComputeOnHost in front come one DataTransfer of its buffer to the device and then only ComputeOnDevice
//   * at least one ComputeOnDevice; each `job_bin_ptr` lies in a range of an InitTransfer
SpyreCode parse(std::string_view json);

// What parse() reads back as the same. Two spaces of indentation, ends with a newline.
std::string to_json(const SpyreCode& code);

// "JobExecPlan[2]", for messages.
std::string step_path(std::size_t index);

}  // namespace svp::spyrecode
