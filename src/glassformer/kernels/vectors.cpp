// What is done with each vector by itself: the norm without a mean, and the rotation by positions.
// vectors.py says what the operators at the end compute.

#include <algorithm>
#include <cmath>

#include "lanes.h"
#include "tensors.h"

namespace {

Array rms_norm(const Array& any_x, const Array& any_weight, const double& eps) {
  Array x = any_x.dense<float>(), weight = any_weight.dense<float>(), result = Array::made<float>(x.sizes());
  require(x.dims() > 0 && x.size(x.dims() - 1) == weight.count(),
          "shapes that do not fit: " + x.shape() + " and " + weight.shape());
  const Size columns = weight.count(), rows = x.count() / std::max(columns, Size(1));
  const float *from = x.data<float>(), *gain = weight.data<float>();
  float* out = result.data<float>();
  #pragma omp parallel for schedule(static) if (rows * columns > SMALL)
  for (Size r = 0; r < rows; r++) {
    const float* row = from + r * columns;
    float factor = 1 / std::sqrt(dot(row, row, columns) / float(columns) + float(eps));
    for (Size c = 0; c < columns; c++) out[r * columns + c] = row[c] * factor * gain[c];
  }
  return result;
}

// Pairs are (i, i + P) by halves, else (2i, 2i + 1); what is behind them stays.
Array rotate(const Array& any_x, const Array& any_cos, const Array& any_sin, const bool& halves) {
  std::string shapes = "shapes that do not fit: " + any_x.shape() + ", " + any_cos.shape() + " and " + any_sin.shape();
  require(any_x.dims() == 4 && any_cos.dims() == 4 && any_cos.sizes() == any_sin.sizes(), shapes);
  Array x = dense_rows(any_x), cos = any_cos.dense<float>(), sin = any_sin.dense<float>();
  const Size B = x.size(0), H = x.size(1), T = x.size(2), E = x.size(3), P = cos.size(3);
  require(2 * P <= E && spans(cos, {B, 1, T, P}), shapes);
  Array result = Array::made<float>({B, H, T, E});
  const Steps of_x = steps_of(x), of_cos = steps_of(cos);
  const float *from = x.data<float>(), *cosines = cos.data<float>(), *sines = sin.data<float>();
  float* to = result.data<float>();
  const Size apart = halves ? P : 1, step = halves ? 1 : 2;
  #pragma omp parallel for schedule(static) if (B * H * T * E > SMALL)
  for (Size at = 0; at < B * H * T; at++) {
    const Size b = at / (H * T), h = at / T % H, t = at % T;
    const float* row = from + b * of_x.batch + h * of_x.head + t * of_x.row;
    const Size angle = b * of_cos.batch + t * of_cos.row;
    float* out = to + at * E;
    for (Size i = 0; i < P; i++) {
      const float c = cosines[angle + i], s = sines[angle + i], a = row[i * step], b = row[i * step + apart];
      out[i * step] = a * c - b * s;
      out[i * step + apart] = a * s + b * c;
    }
    std::copy(row + 2 * P, row + E, out + 2 * P);
  }
  return result;
}

}  // namespace

extern "C" int32_t register_operators() {
  return registered<rms_norm>("rms_norm") || registered<rotate>("rotate");
}
