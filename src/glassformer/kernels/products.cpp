// Products of rows with a matrix, for writing: few rows wait for memory, so each row of the matrix is read once.
// products.py says what the operators at the end compute; the arrays above them are dense, row after row.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lanes.h"
#include "tensors.h"

#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

namespace {

constexpr Size AHEAD = 2048;  // bytes of a matrix that are asked for before they are needed
constexpr Size FEW = 16;      // up to so many rows in 8 bits, one loop is faster than torch's product between two loops
constexpr float LEAST = std::numeric_limits<float>::min();  // what the levels of a row of zeros are divided by

// Levels plus `zero`, and the step of a row; NaN where a number is not finite, and with it every product.
template <typename Level>
float round_row(const float* x, Size columns, int32_t zero, Level* levels) {
  if (!is_finite(x, columns)) {
    std::fill(levels, levels + columns, Level(zero));
    return std::numeric_limits<float>::quiet_NaN();
  }
  float step = largest(x, columns, 0, [](float number) { return std::fabs(number); }) / 127;
  float factor = 1 / std::max(step, LEAST);
  for (Size i = 0; i < columns; i++) levels[i] = Level(int32_t(std::nearbyint(x[i] * factor)) + zero);
  return step;
}

// ROWS rows times WIDTH rows of the matrix; each sum is made in the same order, however many there are.
template <int ROWS, int WIDTH>
void dots(const float* x, const float* w, Size columns, Size outputs, float* out) {
  Floats sums[ROWS][WIDTH] = {};
  Size i = 0;
  for (; i + LANES <= columns; i += LANES) {
    Floats matrix[WIDTH];
    for (int c = 0; c < WIDTH; c++) {
      __builtin_prefetch(w + c * columns + i + AHEAD / Size(sizeof(float)));
      matrix[c] = lanes(w + c * columns + i);
    }
    for (int r = 0; r < ROWS; r++) {
      const Floats& row = lanes(x + r * columns + i);
      for (int c = 0; c < WIDTH; c++) sums[r][c] += row * matrix[c];
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < WIDTH; c++) {
      float rest = 0;
      for (Size j = i; j < columns; j++) rest += x[r * columns + j] * w[c * columns + j];
      out[r * outputs + c] = sum(sums[r][c]) + rest;
    }
}

// ROWS rows of levels plus 128 times one row of the matrix, in whole numbers. Processors multiply numbers with a sign
// by numbers without: hence the 128, and what it brings too much goes again.
template <int ROWS>
void dots(const uint8_t* x, const int8_t* w, Size columns, int32_t* out) {
  Size i = 0;
  std::fill(out, out + ROWS, 0);
#ifdef __AVX512VNNI__
  constexpr Size BLOCK = sizeof(__m512i);
  __m512i sums[ROWS], shift = _mm512_setzero_si512(), ones = _mm512_set1_epi8(1);
  std::fill(sums, sums + ROWS, _mm512_setzero_si512());
  for (; i + BLOCK <= columns; i += BLOCK) {
    __builtin_prefetch(w + i + AHEAD);
    __m512i matrix = _mm512_loadu_si512(w + i);
    shift = _mm512_dpbusd_epi32(shift, ones, matrix);
    for (int r = 0; r < ROWS; r++)
      sums[r] = _mm512_dpbusd_epi32(sums[r], _mm512_loadu_si512(x + r * columns + i), matrix);
  }
  for (int r = 0; r < ROWS; r++) out[r] = _mm512_reduce_add_epi32(sums[r]) - 128 * _mm512_reduce_add_epi32(shift);
#endif
  for (int r = 0; r < ROWS; r++)
    for (Size j = i; j < columns; j++) out[r] += int16_t(x[r * columns + j] - 128) * int16_t(w[j]);
}

// Call f<N>(first row) for all rows, N at a time.
template <typename F>
void by_rows(Size rows, F&& f) {
  Size r = 0;
  for (; r + 8 <= rows; r += 8) f.template operator()<8>(r);
  if (rows - r >= 4) { f.template operator()<4>(r); r += 4; }
  if (rows - r >= 2) { f.template operator()<2>(r); r += 2; }
  if (rows - r >= 1) f.template operator()<1>(r);
}

// In a loop of its own: then product and sum are rounded one after the other, as they are in Python.
void add(const float* bias, float* out, Size rows, Size outputs) {
  for (Size r = 0; bias && r < rows; r++)
    for (Size c = 0; c < outputs; c++) out[r * outputs + c] += bias[c];
}

void multiply(const float* x, const float* w, float* out, Size rows, Size columns, Size outputs) {
  constexpr Size WIDTH = 4;
  #pragma omp parallel for schedule(static) if (rows * columns * outputs > SMALL)
  for (Size c = 0; c < outputs; c += WIDTH) {
    Size width = std::min(WIDTH, outputs - c);
    by_rows(rows, [&]<int ROWS>(Size r) {
      if (width == WIDTH) dots<ROWS, WIDTH>(x + r * columns, w + c * columns, columns, outputs, out + r * outputs + c);
      else for (Size j = c; j < outputs; j++)
        dots<ROWS, 1>(x + r * columns, w + j * columns, columns, outputs, out + r * outputs + j);
    });
  }
}

void multiply_few(const float* x, const int8_t* w, const float* steps, float* out, Size rows, Size columns,
                  Size outputs) {
  std::vector<uint8_t> levels(rows * columns);
  std::vector<float> step(rows);
  for (Size r = 0; r < rows; r++) step[r] = round_row(x + r * columns, columns, 128, &levels[r * columns]);
  #pragma omp parallel for schedule(static) if (rows * columns * outputs > SMALL)
  for (Size c = 0; c < outputs; c++)
    by_rows(rows, [&]<int ROWS>(Size r) {
      int32_t sums[ROWS];
      dots<ROWS>(&levels[r * columns], w + c * columns, columns, sums);
      for (int j = 0; j < ROWS; j++) out[(r + j) * outputs + c] = float(sums[j]) * step[r + j] * steps[c];
    });
}

// torch's product of whole numbers between two loops; the sums and what becomes of them take the same place.
Array multiply_many(const float* x, const Array& w, const float* steps, const float* bias, Size rows, Size columns,
                    Size outputs) {
  Array levels = Array::made<int8_t>({rows, columns}), sums = Array::made<int32_t>({rows, outputs});
  Array result = sums.place_for<float>();
  std::vector<float> step(rows);
  int8_t* level = levels.data<int8_t>();
  #pragma omp parallel for schedule(static) if (rows * columns > SMALL)
  for (Size r = 0; r < rows; r++) step[r] = round_row(x + r * columns, columns, 0, level + r * columns);
  done(aoti_torch_cpu__int_mm_out(sums.handle(), levels.handle(), w.transposed().handle()));
  const int32_t* sum = sums.data<int32_t>();
  float* out = result.data<float>();
  #pragma omp parallel for schedule(static) if (rows * outputs > SMALL)
  for (Size r = 0; r < rows; r++) {
    for (Size c = 0; c < outputs; c++) out[r * outputs + c] = float(sum[r * outputs + c]) * step[r] * steps[c];
    if (bias) add(bias, out + r * outputs, 1, outputs);
  }
  return result;
}

// The number of rows of x, once it is known that all fit a matrix; what stands for its rows has one number for each.
Size rows_of(const Array& x, const Array& matrix, std::initializer_list<const Array*> of_rows) {
  std::string shapes = x.shape() + " and " + matrix.shape();
  bool fit = x.dims() > 0 && matrix.dims() == 2 && x.size(x.dims() - 1) == matrix.size(1);
  for (const Array* each : of_rows) {
    shapes += " and " + each->shape();
    fit = fit && each->count() == matrix.size(0);
  }
  require(fit, "shapes that do not fit: " + shapes);
  Size rows = 1;
  for (int64_t dim = 0; dim + 1 < x.dims(); dim++) rows *= x.size(dim);
  return rows;
}

Sizes with_last(Sizes sizes, Size last) {
  sizes.back() = last;
  return sizes;
}

std::optional<Array> fitting(const std::optional<Array>& any_bias, Size outputs) {
  if (!any_bias) return std::nullopt;
  Array bias = any_bias->dense<float>();
  require(bias.count() == outputs, "a bias " + bias.shape() + " does not fit " + std::to_string(outputs) + " outputs");
  return bias;
}

Array linear(const Array& any_x, const Array& any_weight, const std::optional<Array>& any_bias) {
  Array x = any_x.dense<float>(), weight = any_weight.dense<float>();
  Size rows = rows_of(x, weight, {}), outputs = weight.size(0);
  std::optional<Array> bias = fitting(any_bias, outputs);
  Array result = Array::made<float>(with_last(x.sizes(), outputs));
  float* out = result.data<float>();
  multiply(x.data<float>(), weight.data<float>(), out, rows, weight.size(1), outputs);
  add(bias ? bias->data<float>() : nullptr, out, rows, outputs);
  return result;
}

Array linear_int8(const Array& any_x, const Array& any_levels, const Array& any_steps,
                  const std::optional<Array>& any_bias) {
  Array x = any_x.dense<float>(), levels = any_levels.dense<int8_t>(), sizes_of_levels = any_steps.dense<float>();
  Size rows = rows_of(x, levels, {&sizes_of_levels}), columns = levels.size(1), outputs = levels.size(0);
  std::optional<Array> offsets = fitting(any_bias, outputs);
  const float *from = x.data<float>(), *steps = sizes_of_levels.data<float>();
  const float* bias = offsets ? offsets->data<float>() : nullptr;
  Sizes sizes = with_last(x.sizes(), outputs);
  if (rows > FEW) return multiply_many(from, levels, steps, bias, rows, columns, outputs).seen_as(sizes);
  Array result = Array::made<float>(sizes);
  float* out = result.data<float>();
  multiply_few(from, levels.data<int8_t>(), steps, out, rows, columns, outputs);
  add(bias, out, rows, outputs);
  return result;
}

}  // namespace

extern "C" int32_t register_operators() {
  return registered<linear>("linear") || registered<linear_int8>("linear_int8");
}
