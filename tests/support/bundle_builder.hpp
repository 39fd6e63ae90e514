// SPDX-License-Identifier: Apache-2.0
// Bundles as torch-spyre writes them (bundle.mlir and SDSC files), from a short description: for tests of the compiler.
// Addresses are computed here by loops of their own, so that a test does not ask the compiler about itself.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace test {

struct BundleTensor {
  std::vector<std::string> order{};    // dimensions, innermost first; the stick dimension stands for its stick index
  std::string stick{};                 // one of them
  std::map<std::string, int> scale{};  // of dimensions that are not present: -1, or -2 of the stick dimension
  std::string base{};                  // "arg_0", "pool", or "" for the scratchpad
  std::int64_t offset = 0;             // bytes, of core 0
  std::map<std::string, std::int64_t> loops{};  // bytes for each iteration of a loop variable ("%i_0")
  std::map<std::string, std::int64_t> gap{};    // elements beyond the iteration space
  std::string format = "SEN169_FP16";
  bool index = false;                   // of a gather or scatter
  bool indirect = false;                // reached through it
  std::vector<std::string> windowed{};  // dimensions along which it is read through windows
  // Slices of the cores that hold it, in scratchpads, when they are not the operation's: shuffle.
  std::map<std::string, std::uint32_t> owners{};
};

// Along a dimension that counts windows.
struct BundleWindow {
  std::string taps{};  // the dimension that counts those
  std::uint32_t elements = 1;
  std::uint32_t stride = 1;
  std::uint32_t dilation = 1;
};

struct BundleOperation {
  std::string op{};
  std::vector<std::pair<std::string, std::uint32_t>> extents{};  // in elements, stick dimensions padded
  std::vector<BundleTensor> tensors{};                           // the output is the last one
  std::map<std::string, std::uint32_t> slices{};
  std::map<std::string, std::uint32_t> constants{};                        // codes of DL16
  std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> masks{};  // start, count
  std::map<std::string, BundleWindow> windows{};
};

class BundleBuilder {
 public:
  explicit BundleBuilder(unsigned arguments, std::uint64_t pool_bytes = 0);

  void begin_loop(const std::string& variable, std::uint32_t count);
  void end_loop();
  void add(const BundleOperation& operation);

  std::string text() const;  // bundle.mlir
  const std::map<std::string, nlohmann::json>& files() const { return files_; }
  nlohmann::json& file(unsigned number) { return files_.at("sdsc_" + std::to_string(number) + ".json"); }
  std::string read(const std::string& name) const;

 private:
  std::int64_t symbol(const BundleTensor& tensor, std::int64_t offset);

  unsigned arguments_;
  std::uint64_t pool_bytes_;
  std::vector<std::string> maps_, constants_, body_;
  std::vector<std::string> loops_;         // variables
  std::vector<std::string> values_, ids_;  // of the operation that is added
  std::map<std::string, nlohmann::json> files_;
  unsigned names_ = 0;
  std::int64_t last_id_ = 0;
};

}  // namespace test
