// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

namespace bench {

// PoCL's CPU device with one in-order queue and an empty kernel of one work item, loaded when the bench runs: what a
// good software runtime on this machine needs for a launch. Its calls throw std::runtime_error with OpenCL's error
// number.
class OpenClPeer {
 public:
  // The error says what is missing.
  static std::expected<std::unique_ptr<OpenClPeer>, std::string> open();
  ~OpenClPeer();
  OpenClPeer(const OpenClPeer&) = delete;
  OpenClPeer& operator=(const OpenClPeer&) = delete;

  void enqueue();
  void finish();

 private:
  struct Calls;
  OpenClPeer();
  std::string set_up();  // empty when done

  std::unique_ptr<Calls> calls_;
  void* context_ = nullptr;
  void* queue_ = nullptr;
  void* program_ = nullptr;
  void* kernel_ = nullptr;
};

}  // namespace bench
