// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace svp {

class StreamChannel;

// Who repairs a stream that needs it: what a FlexStream knows of recovery.
class StreamRecoverer {
 public:
  // The stream needs recovery (StreamChannel::needs_recovery()), or did a moment ago. When it returns, the stream
  // works. Throws as Runtime::recover().
  virtual void recover_stream(StreamChannel& channel) = 0;

 protected:
  ~StreamRecoverer() = default;
};

}  // namespace svp
