// A GraphQL server (graphql-yoga, on graphql-js) that says of each request on its input how often it resolved `login`.
import { createInterface } from 'node:readline';
import { createSchema, createYoga } from 'graphql-yoga';

let resolved = 0;
const node = { login: () => { resolved += 1; return true; }, a: () => ({}), b: () => ({}) };
const yoga = createYoga({
  schema: createSchema({
    typeDefs: `
      type Query { login(p: String): Boolean a(x: String, l: [String]): Node b: Node }
      type Mutation { login(p: String): Boolean a(x: String, l: [String]): Node b: Node }
      type Node { login(p: String): Boolean a(x: String, l: [String]): Node b: Node }
    `,
    resolvers: { Query: node, Mutation: node, Node: node },
  }),
  batching: { limit: 1000 },
  graphiql: false,
  landingPage: false,
  logging: false,
});

for await (const line of createInterface({ input: process.stdin })) {
  const { method, query, kind, body } = JSON.parse(line);
  resolved = 0;
  const init = method === 'GET' ? { method } : { method, body, headers: { 'content-type': kind } };
  const response = await yoga.fetch(`http://app.test/graphql?${query}`, init);
  await response.text();
  process.stdout.write(`${resolved}\n`);
}
