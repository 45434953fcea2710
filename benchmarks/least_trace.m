% Trace-norm multi-task least squares as MALSAR computes it: accelerated proximal gradient with a doubling line search, a loop
% over tasks for every gradient and value, a thin SVD for every proximal step, the objective after each. Our own plain text of the published algorithm
% (Ji & Ye 2009; Zhou, Chen, Ye 2011). Prints the seconds of one call.
%   octave-cli --quiet least_trace.m TASKS ROWS FEATURES ITERATIONS PENALTY
1;

function [value, gradient] = loss_at(X, y, W)
  gradient = zeros(size(W)); value = 0;
  for i = 1:numel(X)
    left = X{i} * W(:, i) - y{i};
    gradient(:, i) = X{i}' * left;
    value = value + 0.5 * (left' * left);
  end
end

function value = loss_of(X, y, W)
  value = 0;
  for i = 1:numel(X)
    left = X{i} * W(:, i) - y{i};
    value = value + 0.5 * (left' * left);
  end
end

function W = shrunk(V, threshold)
  [U, S, R] = svd(V, 'econ');
  W = U * diag(max(diag(S) - threshold, 0)) * R';
end

sizes = cellfun(@str2num, argv());
[tasks, rows, features, iterations, penalty] = num2cell(sizes){:};
X = cell(tasks, 1); y = cell(tasks, 1);
for i = 1:tasks
  X{i} = randn(rows, features);
  y{i} = sum(X{i}(:, 1:3), 2) + randn(rows, 1);
end
tic;
W = zeros(features, tasks); before = W; t = 1; t_before = 0; gamma = 1; objective = zeros(iterations, 1);
for k = 1:iterations
  Z = W + (t_before - 1) / t * (W - before);
  [value, gradient] = loss_at(X, y, Z);
  before = W;
  while true
    W = shrunk(Z - gradient / gamma, penalty / gamma);
    move = W - Z;
    if loss_of(X, y, W) <= value + sum(sum(move .* gradient)) + gamma / 2 * norm(move, 'fro')^2 || norm(move, 'fro') < 1e-10
      break
    end
    gamma = 2 * gamma;
  end
  objective(k) = loss_of(X, y, W) + penalty * sum(svd(W));
  t_before = t; t = (1 + sqrt(1 + 4 * t^2)) / 2;
end
printf('%.3f\n', toc);
