// SPDX-License-Identifier: Apache-2.0
// Bundles as torch-spyre writes them, of tensors in DL16: [64,128] where nothing else is said.
#pragma once

#include <filesystem>
#include <string>

namespace bench {

class BundleFolder {
 public:
  enum class Content {
    Add,  // argument 0 + argument 1, written to argument 2
    // along the columns of argument 0, written to argument 1: five operations, values between them in the pool
    Softmax,
    Attention,  // attention_bundle.hpp
  };
  // Writes bundle.mlir and its files into a folder of its own, which goes with the object.
  explicit BundleFolder(Content content);
  ~BundleFolder();
  BundleFolder(const BundleFolder&) = delete;
  BundleFolder& operator=(const BundleFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace bench
